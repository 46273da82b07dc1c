"""Replicas that may lack what was committed, as a broker says of its own when it registers.

A replica that is in the ISR and in doubt does not lead, and leaves the ISR where another member
leads; which of them has most, their ends tell (ADR 27).
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from headrace.broker.metadata_image import BrokerInfo
from headrace.model.nouns import LeaderEpoch, Offset, TopicPartition


class Doubt(NamedTuple):
    """What is left of a replica's log: its last leader epoch, and its end. The greater has more."""

    epoch: LeaderEpoch
    end: Offset


LOST = Doubt(LeaderEpoch(-1), Offset(-1))
"""The log was here, or may have been, and is not any more."""

Doubts = Mapping[TopicPartition, Doubt]


class Registered(NamedTuple):
    """A live broker, and what it says of its replicas."""

    broker: BrokerInfo
    doubts: Doubts


def encode(doubts: Doubts) -> dict[str, dict[str, list[int] | None]]:
    """Return doubts as a registration has them: by topic and partition, null for what is lost."""
    found: dict[str, dict[str, list[int] | None]] = {}
    for (topic, index), doubt in doubts.items():
        found.setdefault(topic, {})[str(index)] = None if doubt == LOST else list(doubt)
    return found


def decode(found: Mapping[str, Mapping[str, Any]]) -> dict[TopicPartition, Doubt]:
    """Return the doubts of a registration. ValueError, KeyError, TypeError, AttributeError."""
    return {
        TopicPartition(topic, int(index)): (
            LOST if known is None else Doubt(LeaderEpoch(int(known[0])), Offset(int(known[1])))
        )
        for topic, partitions in found.items()
        for index, known in partitions.items()
    }
