"""`PeerPort`: the interface by which frontends serve requests of other brokers."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from headrace.broker.replica.leading_right import Ping, PingAnswer
from headrace.cluster.decisions.orders import Failed
from headrace.cluster.peers.peer_call import Fields
from headrace.cluster.peers.queue_topic_calls import Outcomes, QueueTopicChanges
from headrace.cluster.store.znodes import ProducerIdBlock
from headrace.copies.messages import CopyAnswer, CopyQuestion
from headrace.model.errors import ErrorCode
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.remote_queues.leader.queue_sessions import QueueSessions
from headrace.replication.controller_calls import AskedIsr, IsrAnswer


class DeclarationsPort(Protocol):
    """A broker's declarations of vhosts, as the other brokers use them."""

    async def commanded(self, request: Fields) -> Fields:
        """Carry out commands of another broker's clients; return the response's fields."""

    async def polled(self, request: Fields) -> Fields:
        """Answer another broker's long poll of the log of declarations."""


class PeerPort(Protocol):
    """A broker as the other brokers of its cluster call it. Every method may raise ApiError."""

    def shows(self, broker: BrokerId) -> bool:
        """Return whether the metadata image has a broker with this id."""

    async def knows(self, broker: BrokerId) -> bool:
        """Return whether a broker with this id is registered."""

    async def lead_and_follow(self, request: Fields) -> Failed:
        """Apply a LeaderAndIsr request; return the partitions that failed, with error codes."""

    async def show(self, request: Fields) -> None:
        """Apply an UpdateMetadata request to the metadata image that clients are shown."""

    async def stop_replicas(self, request: Fields) -> Failed:
        """Apply a StopReplica request; return the partitions that failed, with error codes."""

    async def shut_down(self, broker: BrokerId, broker_epoch: int) -> Sequence[TopicPartition]:
        """Move leadership away from `broker`, as the controller.

        Return the partitions that it still leads and whose other replicas may yet join the ISR.
        ApiError: BROKER_NOT_AVAILABLE, STALE_BROKER_EPOCH.
        """

    async def alter_partitions(
        self, broker: BrokerId, broker_epoch: int, asked: Sequence[AskedIsr]
    ) -> Mapping[TopicPartition, IsrAnswer | ErrorCode]:
        """Change ISRs, as the controller.

        Return for each partition its state now, or the error code.
        """

    async def allocate_producer_ids(self, broker: BrokerId, broker_epoch: int) -> ProducerIdBlock:
        """Reserve a block of producer ids for `broker`, as the controller."""

    async def change_queue_topics(self, changes: QueueTopicChanges) -> Outcomes:
        """Create and delete topics of queues, as the controller; return the errors in order."""

    async def copy_settled(self, questions: Sequence[CopyQuestion]) -> Sequence[CopyAnswer]:
        """Write frames of settled positions for their leaders; return the answers in order."""

    def note_alarm(self, request: Fields) -> None:
        """Note an alarm of another broker. ApiError UNSUPPORTED_VERSION: this one has no queues."""

    def pinged(self, ping: Ping) -> PingAnswer:
        """Return the leader epochs that a ping does not know."""

    @property
    def declarations(self) -> DeclarationsPort:
        """The declarations of vhosts. ApiError UNSUPPORTED_VERSION: the broker has none."""

    def queue_sessions_of(self, broker_epoch: int) -> QueueSessions:
        """Return the sessions of other brokers with the queues that this registration leads.

        ApiError: UNSUPPORTED_VERSION without queues, FETCH_SESSION_ID_NOT_FOUND for another
        registration than the present one; -1: the caller does not know it.
        """
