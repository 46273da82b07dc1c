"""Replicas that may lack what was committed, as a broker says of its own when it registers.

A replica that is in the ISR and in doubt does not lead, and leaves the ISR where another member
leads; which of them has most, their ends tell (ADR 27). Why it is in doubt decides whether it is
elected without being asked for, and what an operator is told (ADR 64).
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from headrace.broker.metadata_image import BrokerInfo
from headrace.model.nouns import LeaderEpoch, Offset, TopicPartition

UNFLUSHED = "unflushed"
"""A power cut may have taken acknowledged records that were not flushed."""
REPAIRED = "repaired"
"""`headrace log repair` has given up records of the log."""
OLDER = "older copy"
"""The log directory is not the one that this broker had last: a backup, an older disk image."""
DAMAGED = "damaged"
"""The log is out of service; its files stay as they are."""
GONE = "gone"
"""The log was here, or may have been, and is not any more."""
_CHANGED_BY_HAND = (REPAIRED, OLDER)


class Doubt(NamedTuple):
    """What is left of a replica's log: its last leader epoch, and its end. The greater has more."""

    epoch: LeaderEpoch
    end: Offset
    cause: str = UNFLUSHED

    @property
    def is_lost(self) -> bool:
        """Whether nothing is left that could be led."""
        return self.end < 0

    @property
    def is_by_hand(self) -> bool:
        """Whether any number of records may be missing: others may have more, in the ISR or not."""
        return self.cause in _CHANGED_BY_HAND


LOST = Doubt(LeaderEpoch(-1), Offset(-1), GONE)
OUT_OF_SERVICE = LOST._replace(cause=DAMAGED)

Doubts = Mapping[TopicPartition, Doubt]


class Registered(NamedTuple):
    """A live broker, and what it says of its replicas."""

    broker: BrokerInfo
    doubts: Doubts


def encode(doubts: Doubts) -> dict[str, dict[str, list[int | str] | None]]:
    """Return doubts as a registration has them: by topic and partition, null for what is lost.

    The cause is a third element, which controllers of before pass over, where there is another.
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
    """Return the doubts of a registration. ValueError, KeyError, TypeError, AttributeError."""
    return {
        TopicPartition(topic, int(index)): LOST if known is None else _doubt(known)
        for topic, partitions in found.items()
        for index, known in partitions.items()
    }


def _doubt(known: Sequence[int | str]) -> Doubt:
    cause = str(known[2]) if len(known) > 2 else UNFLUSHED
    return Doubt(LeaderEpoch(int(known[0])), Offset(int(known[1])), cause)
