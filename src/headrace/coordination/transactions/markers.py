"""`Markers`: write a decided transaction's markers until each of its partitions has one.

A partition has its marker once the high watermark has passed it, as readers then see the
transaction's end. A partition that cannot take it now (a failed directory, too few in-sync
replicas) is retried without limit. A deleted partition needs no marker. A marker that is written
twice, after a restart, has no effect the second time.
"""

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from headrace.coordination.transactions.transaction_state import TransactionState
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.ports.clock import Clock
from headrace.wire.kafka.coordinator_records.transaction_state import TransactionStatus

_logger = logging.getLogger(__name__)

MarkerWritten = Callable[[TopicPartition, ApiError | None], None]
"""Called for each partition: with None once its marker is committed, or with an error."""
_SUPERSEDED = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)


class Marker(NamedTuple):
    """A transaction marker (a control record) as it is written to each partition."""

    producer_id: int
    epoch: int
    commit: bool
    coordinator_epoch: int


class Participants(Protocol):
    """The partitions that transactions write to, on this and other brokers."""

    def exists(self, partition: TopicPartition) -> bool:
        """Return whether the partition exists, with or without a leader; False: it was deleted."""

    def write(
        self, marker: Marker, partitions: Sequence[TopicPartition], done: MarkerWritten
    ) -> None:
        """Write the marker to all partitions, with one request for each leader.

        `done` is called for each partition, at once or later: with None once the marker is
        committed and, for `__consumer_offsets`, applied to the groups' offsets; or with an error.
        """


class Markers:
    """The markers of one decided transaction, until all are written."""

    def __init__(
        self,
        state: TransactionState,
        coordinator_epoch: int,
        participants: Participants,
        *,
        clock: Clock,
        retry_seconds: float,
        done: Callable[[], None],
    ) -> None:
        commit = state.status is TransactionStatus.PREPARE_COMMIT
        self._marker = Marker(state.producer_id, state.epoch, commit, coordinator_epoch)
        self._participants = participants
        self._clock = clock
        self._retry_seconds = retry_seconds
        self._done = done
        self._missing = set(state.partitions)
        self._refused: list[TopicPartition] = []
        """Partitions whose markers failed; one timer retries them together."""
        self._cancelled = False

    def start(self) -> None:
        """Write the markers; `done` may be called before this returns."""
        if self._missing:
            self._write(sorted(self._missing))
        else:
            self._done()

    def cancel(self) -> None:
        """Stop retries, and never call `done`."""
        self._cancelled = True

    def _write(self, partitions: Sequence[TopicPartition]) -> None:
        if self._cancelled:
            return
        there = []
        for partition in partitions:
            if self._participants.exists(partition):
                there.append(partition)
            else:
                self._has_its_marker(partition)
        if there:
            self._participants.write(self._marker, there, self._written)

    def _written(self, partition: TopicPartition, error: ApiError | None) -> None:
        if self._cancelled:
            return
        if error is not None and error.code not in _SUPERSEDED:
            if not self._refused:
                self._clock.call_later(self._retry_seconds, self._write_again)
            self._refused.append(partition)
            return
        if error is not None:
            _logger.warning("%s needs no marker of this transaction any more: %s", partition, error)
        self._has_its_marker(partition)

    def _write_again(self) -> None:
        """Retry all failed partitions together."""
        refused, self._refused = self._refused, []
        self._write(refused)

    def _has_its_marker(self, partition: TopicPartition) -> None:
        if self._cancelled:
            return
        self._missing.discard(partition)
        if not self._missing:
            self._cancelled = True
            self._done()
