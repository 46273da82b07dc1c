"""A consumer's fetch with a rack (KIP-392), which is sent to a replica in that rack.

The preferred replica must be in sync, on a live broker with the consumer's listener, and have the
requested offset; of several the one with the highest end offset. The leader answers itself if it is
in that rack, or if no replica qualifies.
"""

from typing import TYPE_CHECKING

from headrace.frontends.kafka.fetch.fetch_in_hand import LOOK_AGAIN, FetchInHand
from headrace.model.nouns import BrokerId, Offset

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.broker.metadata_image import BrokerInfo
    from headrace.broker.partition import Partition
    from headrace.config.broker import BrokerConfig
    from headrace.frontends.kafka.fetch.wanted_partitions import WantedPartition
    from headrace.wire.kafka.hot.fetch_response import FetchedPartition

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def is_wanted(config: "BrokerConfig", rack: str) -> bool:
    """Tell whether this broker may send consumers in `rack` to another replica."""
    return config.replica_selector_class == RACK_AWARE and rack != config.broker_rack


class NearFetch(FetchInHand):
    """A fetch of a consumer in another rack than this broker's."""

    __slots__ = ()

    def _read(self, entry: "WantedPartition", partition: "Partition") -> "FetchedPartition":
        asked = entry.asked
        nearer = self._nearer(partition, Offset(asked.fetch_offset))
        if nearer is None:
            return super()._read(entry, partition)
        self.failed = True  # answered at once
        result = self._result(partition, asked, b"", None)
        self.readable_end = LOOK_AGAIN
        return result._replace(preferred_read_replica=nearer)

    def _nearer(self, partition: "Partition", offset: Offset) -> BrokerId | None:
        term = partition.role.term
        if term is None:  # no other replicas, or not the leader
            return None
        fit = {
            replica: end
            for replica, end in term.ends_in_sync(offset)
            if self._stands_there(self.broker.image.brokers, replica)
        }
        return max(fit, key=lambda replica: (fit[replica], -replica)) if fit else None

    def _stands_there(self, brokers: "Mapping[BrokerId, BrokerInfo]", replica: BrokerId) -> bool:
        known = brokers.get(replica)
        return (
            known is not None
            and known.rack == self.request.rack_id
            and known.endpoint(self.identity.listener) is not None
        )
