"""What frontends may ask of this broker in the name of another one, its controller among them."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from headrace.cluster.decisions.orders import Failed
from headrace.cluster.peers.peer_call import Fields
from headrace.cluster.store.znodes import ProducerIdBlock
from headrace.model.errors import ErrorCode
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.replication.controller_calls import AskedIsr, IsrAnswer


class PeerPort(Protocol):
    """A broker as the others of its cluster see it. Every method may raise ApiError."""

    async def knows(self, broker: BrokerId) -> bool:
        """Tell whether a broker of this id is registered."""

    async def lead_and_follow(self, request: Fields) -> Failed:
        """Carry out a LeaderAndIsr request; what could not be, by partition."""

    async def show(self, request: Fields) -> None:
        """Show clients what an UpdateMetadata request tells."""

    async def stop_replicas(self, request: Fields) -> Failed:
        """Carry out a StopReplica request; what could not be, by partition."""

    async def shut_down(self, broker: BrokerId, broker_epoch: int) -> Sequence[TopicPartition]:
        """Have others lead what a broker leads, as the controller; what it leads still."""

    async def alter_partitions(
        self, broker: BrokerId, broker_epoch: int, asked: Sequence[AskedIsr]
    ) -> Mapping[TopicPartition, IsrAnswer | ErrorCode]:
        """Change ISRs as the controller; each partition's state then, or why it stays."""

    async def allocate_producer_ids(self, broker: BrokerId, broker_epoch: int) -> ProducerIdBlock:
        """Reserve a block of producer ids as the controller."""
