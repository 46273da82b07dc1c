"""Assignors of large groups work on a thread; members go on by what they have meanwhile.

Consumer groups and share groups alike. A group's first target is made at once: nobody in it has
anything yet.
"""

import logging
from collections.abc import Callable
from typing import Protocol, TypeVar

INITIAL_EPOCH = 1
"""The group epoch and the target epoch of a group that nobody has joined yet, as in Kafka 4.3
(ModernGroup): whoever joins while the first target is being made is in an epoch, too."""
_logger = logging.getLogger(__name__)
AT_ONCE_MAX = 5_000
"""Subscriptions and partitions for which the loop waits: a few milliseconds."""
Found = TypeVar("Found")


class AssignedGroup(Protocol):
    """What is asked of a group of either kind."""

    group_id: str
    target_epoch: int
    """The epoch its present target was made for; the initial one: there is none."""
    is_assigning: bool
    """An assignor works on its target, on a thread."""


def is_made_at_once(group: AssignedGroup, size: int, offloads: bool) -> bool:
    """Whether the loop waits for a target of `size` subscriptions and partitions."""
    return size <= AT_ONCE_MAX or group.target_epoch <= INITIAL_EPOCH or not offloads


def begin(
    group: AssignedGroup, find: Callable[[str], object], take: Callable[[Found], None]
) -> Callable[[Found | BaseException], None]:
    """The group's assignor is at work from now on; what is returned is to be told what it found.

    `take` is handed that, unless `find(group_id)` is another group or none by then. An assignor
    that meets a bug is logged; the next heartbeat tries again.
    """
    group.is_assigning = True

    def done(found: Found | BaseException) -> None:
        group.is_assigning = False
        if find(group.group_id) is not group:
            return  # another broker's now, or gone
        if isinstance(found, BaseException):
            _logger.error("group %s: its assignor met a bug", group.group_id, exc_info=found)
            return
        take(found)

    return done
