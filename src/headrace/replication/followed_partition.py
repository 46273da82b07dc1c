"""One partition that is followed here: what is asked for next, and whether that may be now."""

from typing import TYPE_CHECKING

from headrace.broker.partition import Partition
from headrace.broker.replica.follower import Follower
from headrace.model.errors import ErrorCode
from headrace.model.nouns import Offset
from headrace.ports.backoff import backoff_seconds
from headrace.wire.kafka.hot.fetch import FetchPartition

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.replication.fetch_session import Key

REST_SECONDS_MIN = 0.05
"""The first rest after an error; each one that follows is twice as long."""
EXPECTED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""What leaders answer while orders are on their way to them, or to us."""


class FollowedPartition:
    """A partition that follows one leader in one epoch. `log.LogListener`."""

    __slots__ = (
        "_changed", "_failures", "_heard", "follower", "key", "partition", "paused", "resting",
    )  # fmt: skip

    def __init__(
        self, partition: Partition, follower: Follower, changed: "Callable[[Key], None]"
    ) -> None:
        """`changed` is told when something else may be asked for, or nothing."""
        self.partition = partition
        self.follower = follower
        self.key: Key = (partition.topic_id, partition.topic_partition.partition)
        self.resting = False
        """Whether an error was answered just now."""
        self.paused = False
        """Whether it is throttled, or its directory has no room."""
        self._changed = changed
        self._failures = 0
        self._heard = False
        """Whether the leader has said how far it is committed."""
        partition.log.listen(self)

    def end(self) -> None:
        """Hear of the log no more."""
        self.partition.log.unlisten(self)

    @property
    def in_flush(self) -> bool:
        """Whether what was fetched is not flushed yet, and is to be before it counts as fetched."""
        log = self.partition.log
        return self.partition.role.flushes_on_ack and log.flushed_offset < log.end_offset

    @property
    def ready(self) -> bool:
        """Whether the leader may be asked for more."""
        if self.follower.ended or self.resting or self.paused or self.partition.log.cutting:
            return False
        return not self.in_flush

    @property
    def has_committed(self) -> bool:
        """Whether it has what is committed, as far as the leader has said.

        Kafka's followers take that for being in sync (PartitionFetchState.isReplicaInSync).
        """
        return self._heard and self.partition.log.end_offset >= self.follower.leader_high_watermark

    def asked(self, max_bytes: int) -> FetchPartition:
        """Return what to ask for next: from the log's end on, which is flushed."""
        log = self.partition.log
        return FetchPartition(
            self.key[1],
            self.partition.leader_epoch,
            log.end_offset,
            log.epochs.latest,
            log.start_offset,
            max_bytes,
        )

    def log_flushed(self, upto: Offset) -> None:
        """Do as `LogListener` says: nothing moves here."""

    def log_readable(self) -> None:
        """Do as `LogListener` says."""
        self._changed(self.key)

    def failed(self, backoff_ms: int) -> tuple[float, bool]:
        """Note an error; for how many seconds to rest, and whether it is worth a line in the log.

        One line for as many as come in a row.
        """
        self._failures += 1
        return rest_seconds(self._failures, backoff_ms), self._failures == 1

    def succeeded(self) -> None:
        """Note that an answer was taken: all is well."""
        self._failures = 0
        self._heard = True


def rest_seconds(failures: int, backoff_ms: int) -> float:
    """Return how long to rest after so many failures in a row: each time twice as long, up to
    `replica.fetch.backoff.ms`; orders that are under way arrive soon."""
    return backoff_seconds(failures, REST_SECONDS_MIN, backoff_ms / 1000)
