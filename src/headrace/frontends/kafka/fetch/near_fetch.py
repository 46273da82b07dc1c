"""A consumer's fetch that says in which rack it stands (KIP-392): it is sent to a replica there.

That replica must be in sync, on a living broker with the consumer's listener, and hold the offset
that is asked for; of several the one that is furthest. Where the leader stands in that rack, or
nobody that fits does, the leader answers.
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
    """Tell whether consumers in `rack` may be sent elsewhere by this broker."""
    return config.replica_selector_class == RACK_AWARE and rack != config.broker_rack


class NearFetch(FetchInHand):
    """One request of a consumer in another rack."""

    __slots__ = ()

    def _read(self, entry: "WantedPartition", partition: "Partition") -> "FetchedPartition":
        asked = entry.asked
        nearer = self._nearer(partition, Offset(asked.fetch_offset))
        if nearer is None:
            return super()._read(entry, partition)
        self.failed = True  # he is told at once
        result = self._result(partition, asked, b"", None)
        self.readable_end = LOOK_AGAIN
        return result._replace(preferred_read_replica=nearer)

    def _nearer(self, partition: "Partition", offset: Offset) -> BrokerId | None:
        term = partition.role.term
        if term is None:  # there are no others, or it is not led here
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
