"""When a group's epoch grows."""

from typing import Any

from headrace.coordination.groups.modern.changes import GroupEpoch
from headrace.coordination.groups.modern.group import ModernGroup
from headrace.coordination.groups.modern.group_change import Turn

AnyTurn = Turn[ModernGroup[Any, Any]]


def refresh(turn: AnyTurn, *, changed: bool) -> bool:
    """Let the epoch grow if subscriptions (`changed`) or their topics did; whether it has.

    Looks at the topics only where some have come or gone since last time.
    """
    group, image = turn.group, turn.shard.image()
    if not changed and group.image_structure == image.structure:
        return False
    digest = image.hash_of(group.subscribed_topics())
    # Without members nobody needs it: the next one to join will look.
    grows = (changed and bool(group.members)) or digest != group.metadata_hash
    if grows:
        turn.change(GroupEpoch(group.epoch + 1, digest))
    seen, group.image_structure = group.image_structure, image.structure
    turn.also(lambda: setattr(group, "image_structure", seen))
    return grows


def grow(turn: AnyTurn) -> None:
    """Let the epoch grow: the group lost a member, or has more to read."""
    group = turn.group
    digest = turn.shard.image().hash_of(group.subscribed_topics())
    turn.change(GroupEpoch(group.epoch + 1, digest))
