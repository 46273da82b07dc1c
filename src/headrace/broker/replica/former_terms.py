"""Leader epochs under which a former process of this broker led partitions.

It must not lead again under the same epoch: records that were not flushed may be lost here although
followers have them.
"""

from collections.abc import Mapping
from typing import NamedTuple

from headrace.model.nouns import LeaderEpoch, TopicPartition


class FormerTerm(NamedTuple):
    """The leader epoch of a partition that a former process led."""

    topic_id: bytes | None
    """None: the topic had no id."""
    leader_epoch: LeaderEpoch


FormerTerms = Mapping[TopicPartition, FormerTerm]


def led_before(
    terms: FormerTerms, partition: TopicPartition, topic_id: bytes, leader_epoch: LeaderEpoch
) -> bool:
    """Return whether a former process led the partition under this epoch or a later one.

    Not if the topic was deleted and created again since: epochs of the new one begin with 0.
    """
    former = terms.get(partition)
    if former is None or former.topic_id not in (None, topic_id):
        return False
    return leader_epoch <= former.leader_epoch
