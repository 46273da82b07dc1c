"""A record's states in a cursor, and what can become of a record that is out."""

from enum import IntEnum
from typing import NamedTuple

from headrace.model.errors import HeadraceError


class RecordState(IntEnum):
    """Numbered as `__share_group_state` has them (Kafka's RecordState)."""

    AVAILABLE = 0
    """To be handed out, for the first time or again."""
    ACQUIRED = 1
    """Out with a holder. Never persisted: what was out comes back after a restart."""
    ACKNOWLEDGED = 2
    """Done."""
    ARCHIVED = 4
    """Given up: rejected, tried too often, or no record at all (a marker, a gap)."""


SETTLED = frozenset({RecordState.ACKNOWLEDGED, RecordState.ARCHIVED})


class Outcome(IntEnum):
    """What a holder says of records it holds."""

    ACCEPT = 0
    """Done with them."""
    RELEASE = 1
    """Not now: hand them out again, unless they have been tried too often."""
    REJECT = 2
    """Never again."""
    RETURN = 3
    """They were never looked at: as if they had not been acquired, the count of tries too."""


class Cause(IntEnum):
    """Why a record is given up."""

    REJECTED = 0
    TRIES_SPENT = 1
    EXPIRED = 2
    """It was not wanted within its time."""
    DROPPED = 3
    """There was no room for it."""


class DeadLetter(NamedTuple):
    """Offsets `first` to `last`, inclusive, given up after `tries` deliveries, and not yet gone."""

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
    """Offsets `first` to `last`, inclusive, now out for the `tries`th time."""

    first: int
    last: int
    tries: int


class NotHeld(HeadraceError):
    """Somebody settles what is not out with it: never was, is no longer, or is another's."""
