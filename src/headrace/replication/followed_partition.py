"""`FollowedPartition`: the fetch state of a partition that follows a leader."""

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
"""First pause in seconds after an error; doubled with each further error."""
EXPECTED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Errors of leaders while the controller's orders are on their way."""


class FollowedPartition:
    """A partition that follows one leader in one epoch. Listens to its log."""

    __slots__ = (
        "_changed", "_failures", "_heard", "follower", "key", "partition", "paused", "resting",
    )  # fmt: skip

    def __init__(
        self, partition: Partition, follower: Follower, changed: "Callable[[Key], None]"
    ) -> None:
        """Make the fetch state of a partition; `changed` is called at each change of it."""
        self.partition = partition
        self.follower = follower
        self.key: Key = (partition.topic_id, partition.topic_partition.partition)
        self.resting = False
        """Whether fetching is paused after an error."""
        self.paused = False
        """Whether fetching is delayed by a throttle or by a full disk."""
        self._changed = changed
        self._failures = 0
        self._heard = False
        """Whether the leader has reported its high watermark."""
        partition.log.listen(self)

    def end(self) -> None:
        """Stop listening to the log."""
        self.partition.log.unlisten(self)

    @property
    def in_flush(self) -> bool:
        """Whether fetched records wait for the flush that must precede the next fetch."""
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
        """Whether the log reaches the leader's high watermark, as last reported.

        Kafka's followers take that as in sync (PartitionFetchState.isReplicaInSync).
        """
        return self._heard and self.partition.log.end_offset >= self.follower.leader_high_watermark

    def asked(self, max_bytes: int) -> FetchPartition:
        """Return the parameters of the next fetch, from the log's (flushed) end on."""
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
        """Do nothing; `log_readable` follows."""

    def log_readable(self) -> None:
        """Report that the fetch parameters changed, as the log was flushed or reset."""
        self._changed(self.key)

    def failed(self, backoff_ms: int) -> tuple[float, bool]:
        """Count an error; return the seconds to pause, and whether to log it.

        Only the first of several errors in a row is logged.
        """
        self._failures += 1
        return rest_seconds(self._failures, backoff_ms), self._failures == 1

    def succeeded(self) -> None:
        """Reset the error count after a successful response."""
        self._failures = 0
        self._heard = True


def rest_seconds(failures: int, backoff_ms: int) -> float:
    """Return the pause in seconds after `failures` errors in a row.

    Doubled each time, up to `replica.fetch.backoff.ms`; orders on their way arrive soon.
    """
    return backoff_seconds(failures, REST_SECONDS_MIN, backoff_ms / 1000)
