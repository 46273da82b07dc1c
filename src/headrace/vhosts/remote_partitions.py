"""`RemotePartitions`: the leaders of Kafka topics' partitions, for messages of exchanges.

ask ──► leader now ──► stored
 ▲          │ no leader, no answer
 └──────────┘ after a pause, for `SECONDS_MAX` at most
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.client.calls.call import RETRIABLE
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.ports.callbacks import Done
from headrace.record.batch import parse_header
from headrace.shards.ask_leader import AskLeader, Retry
from headrace.vhosts.remote_partition import NewProducerId, Produced, RemotePartition

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.config.log_config import LogConfig

SECONDS_MAX = 30.0
"""Seconds for which a batch is sent again after errors that a change of leader ends."""
_RETRIED = (RETRIABLE - {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID}) | {
    ErrorCode.COORDINATOR_NOT_AVAILABLE  # that of `AskLeader` while no broker leads
}


Produce = Callable[[BrokerId, Produced, Done[ApiError | None]], None]
"""Sends a batch to a partition's leader, once, and takes None once it is committed."""


class RemotePartitions:
    """The partitions that messages of this broker's exchanges are sent to."""

    def __init__(
        self,
        broker: "Broker",
        config: Callable[[str], "LogConfig"],
        new_producer_id: NewProducerId,
        produce: Produce,
    ) -> None:
        """Create without partitions.

        `config` returns the settings of a topic, or raises ApiError.
        """
        self.config = config
        self.new_producer_id = new_producer_id
        self.now_ms = broker.clock.wall_ms
        self._broker = broker
        self._known: dict[TopicPartition, RemotePartition] = {}
        self._leaders: AskLeader[Produced, None] = AskLeader(
            broker.broker_id,
            lambda produced: broker.image.leader_of(produced.partition),
            self._append_here,
            produce,
            broker.clock,
            Retry(_RETRIED, SECONDS_MAX),
        )
        self.ask = self._leaders.ask

    def partition(self, topic: str, index: int) -> RemotePartition:
        """Return a partition of an existing topic that another broker leads, or none now."""
        name = TopicPartition(topic, index)
        found = self._known.get(name)
        if found is None:
            found = self._known[name] = RemotePartition(name, self)
        return found

    def close(self) -> None:
        """Refuse all batches that are not stored: the broker stops."""
        self._leaders.close(ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the broker stops"))

    def _append_here(self, produced: Produced, done: Done[ApiError | None]) -> None:
        """Append a batch to a partition that this broker leads by now."""
        batch = memoryview(bytearray(produced.batch))
        try:
            partition = self._broker.partition(*produced.partition)
            appended = partition.append(batch, parse_header(batch), now_ms=self.now_ms())
        except ApiError as error:
            done(error)
            return
        partition.when_committed(appended.commit_offset, done)
