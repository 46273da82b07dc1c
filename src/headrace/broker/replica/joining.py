"""Rules by which replicas that have the log join the ISR.

Before the owner of such a partition is loaded, what its replicas have is unknown: none joins.
"""

from collections.abc import Callable

from headrace.model.nouns import BrokerId
from headrace.model.protocols import are_positions_copied

MayJoin = Callable[[BrokerId], bool]
"""Whether a follower that has the log has all else that a member of the ISR needs."""


def never(broker: BrokerId) -> bool:
    """Return False: no replica may join the ISR."""
    return False


def by_log(broker: BrokerId) -> bool:
    """Return True: a member of the ISR needs the log alone."""
    return True


def joins(topic: str) -> MayJoin:
    """Return the rule by which replicas of a new partition join."""
    return never if are_positions_copied(topic) else by_log
