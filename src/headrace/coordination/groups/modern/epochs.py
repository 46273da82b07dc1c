"""When the epoch of a modern group grows."""

from typing import Any

from headrace.coordination.groups.modern.changes import GroupEpoch
from headrace.coordination.groups.modern.group import ModernGroup
from headrace.coordination.groups.modern.group_change import Turn

AnyTurn = Turn[ModernGroup[Any, Any]]


def refresh(turn: AnyTurn, *, changed: bool) -> bool:
    """Increase the group epoch if subscriptions (`changed`) or their topics changed; return
    whether.

    Topic metadata is compared only if the image's structure changed since the last call.
    """
    group, image = turn.group, turn.shard.image()
    if not changed and group.image_structure == image.structure:
        return False
    digest = image.hash_of(group.subscribed_topics())
    # Without members the epoch need not grow: the next member to join checks again.
    grows = (changed and bool(group.members)) or digest != group.metadata_hash
    if grows:
        turn.change(GroupEpoch(group.epoch + 1, digest))
    seen, group.image_structure = group.image_structure, image.structure
    turn.also(lambda: setattr(group, "image_structure", seen))
    return grows


def grow(turn: AnyTurn) -> None:
    """Increase the group epoch: a member left, or new partitions can be assigned."""
    group = turn.group
    digest = turn.shard.image().hash_of(group.subscribed_topics())
    turn.change(GroupEpoch(group.epoch + 1, digest))
