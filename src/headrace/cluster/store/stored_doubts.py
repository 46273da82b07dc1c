"""Doubts: replicas that may lack committed records, as brokers report them in their registrations.

A replica in doubt does not lead, and leaves the ISR if another member leads. Among several, the
greatest epoch and end offset has the most records (ADR 27). The cause decides whether it may be
elected automatically, and what an operator is told (ADR 64).
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from headrace.broker.metadata_image import BrokerInfo
from headrace.model.nouns import LeaderEpoch, Offset, TopicPartition

UNFLUSHED = "unflushed"
"""A power failure may have taken acknowledged records that were not flushed."""
REPAIRED = "repaired"
"""`headrace log repair` has dropped records of the log."""
OLDER = "older copy"
"""The log directory is an older copy: a backup, or an older disk image."""
DAMAGED = "damaged"
"""The log is out of service; its files stay as they are."""
GONE = "gone"
"""The log existed, or may have existed, and is missing."""
_CHANGED_BY_HAND = (REPAIRED, OLDER)


class Doubt(NamedTuple):
    """The last leader epoch and the end offset of a log in doubt.

    The greater pair has more records.
    """

    epoch: LeaderEpoch
    end: Offset
    cause: str = UNFLUSHED

    @property
    def is_lost(self) -> bool:
        """Whether no log is left that could lead."""
        return self.end < 0

    @property
    def is_by_hand(self) -> bool:
        """Whether any number of records may be missing, so that any other replica may have more."""
        return self.cause in _CHANGED_BY_HAND


LOST = Doubt(LeaderEpoch(-1), Offset(-1), GONE)
OUT_OF_SERVICE = LOST._replace(cause=DAMAGED)

Doubts = Mapping[TopicPartition, Doubt]


class Registered(NamedTuple):
    """A live broker, with the doubts in its registration."""

    broker: BrokerInfo
    doubts: Doubts


def encode(doubts: Doubts) -> dict[str, dict[str, list[int | str] | None]]:
    """Encode doubts as a registration's JSON: by topic and partition; null: LOST.

    A value is [epoch, end], with the cause as a third element unless it is UNFLUSHED; older
    controllers ignore it.
    """
    found: dict[str, dict[str, list[int | str] | None]] = {}
    for (topic, index), doubt in doubts.items():
        known: list[int | str] = [
            doubt.epoch,
            doubt.end,
            *([] if doubt.cause == UNFLUSHED else [doubt.cause]),
        ]
        found.setdefault(topic, {})[str(index)] = None if doubt == LOST else known
    return found


def decode(found: Mapping[str, Mapping[str, Any]]) -> dict[TopicPartition, Doubt]:
    """Decode the doubts of a registration.

    Raises ValueError, KeyError, TypeError or AttributeError.
    """
    return {
        TopicPartition(topic, int(index)): LOST if known is None else _doubt(known)
        for topic, partitions in found.items()
        for index, known in partitions.items()
    }


def _doubt(known: Sequence[int | str]) -> Doubt:
    cause = str(known[2]) if len(known) > 2 else UNFLUSHED
    return Doubt(LeaderEpoch(int(known[0])), Offset(int(known[1])), cause)
