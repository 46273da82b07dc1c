"""The states of a record in a cursor, and the outcomes of an acquisition."""

from enum import IntEnum
from typing import NamedTuple

from headrace.model.errors import HeadraceError


class RecordState(IntEnum):
    """A record's delivery state, numbered as in `__share_group_state` (Kafka's RecordState)."""

    AVAILABLE = 0
    """To be delivered, for the first time or again."""
    ACQUIRED = 1
    """Acquired by a holder. Never persisted: after a restart the record is available."""
    ACKNOWLEDGED = 2
    """Accepted by its holder: processed, never delivered again."""
    ARCHIVED = 4
    """Given up: rejected, delivered too often, or not a record (a marker, a gap)."""


SETTLED = frozenset({RecordState.ACKNOWLEDGED, RecordState.ARCHIVED})


class Outcome(IntEnum):
    """The result that a holder reports for acquired records."""

    ACCEPT = 0
    """The records are processed."""
    RELEASE = 1
    """Deliver again, unless the delivery limit is reached."""
    REJECT = 2
    """Never deliver again."""
    RETURN = 3
    """Not looked at: available again, with the delivery count of before."""


class Cause(IntEnum):
    """Why a record is given up."""

    REJECTED = 0
    TRIES_SPENT = 1
    EXPIRED = 2
    """Its time to live is over."""
    DROPPED = 3
    """The queue had no room for it."""


class DeadLetter(NamedTuple):
    """Offsets `first` to `last`, inclusive, given up after `tries` deliveries, not archived."""

    first: int
    last: int
    tries: int
    cause: Cause


class StateBatch(NamedTuple):
    """Offsets `first` to `last`, inclusive, in one state after `tries` deliveries."""

    first: int
    last: int
    state: RecordState
    tries: int


class Acquired(NamedTuple):
    """Offsets `first` to `last`, inclusive, acquired for the `tries`th time."""

    first: int
    last: int
    tries: int


class NotHeld(HeadraceError):
    """A holder settles or renews records that it has not acquired, or no longer has."""
