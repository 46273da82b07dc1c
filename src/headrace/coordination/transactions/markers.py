"""A decided transaction's markers: written in every partition of it, until every one has its own.

A marker holds once the partition's high watermark has passed it, which is when readers learn the
transaction's end. A partition that cannot take it now (its directory failed, too few replicas) is
asked again and again; one whose topic is gone needs none. Written twice, after a restart, a marker
does nothing the second time.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Protocol

from headrace.coordination.transactions.transaction_state import TransactionState
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import Offset, TopicPartition
from headrace.ports.callbacks import Done
from headrace.ports.clock import Clock
from headrace.wire.kafka.coordinator_records.transaction_state import TransactionStatus

_logger = logging.getLogger(__name__)

_SUPERSEDED = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)


class AppendedMarker(Protocol):
    """What a partition says of an append."""

    @property
    def commit_offset(self) -> Offset: ...


class MarkedPartition(Protocol):
    """What is asked of `broker.partition.Partition`."""

    def append_marker(
        self,
        producer_id: int,
        epoch: int,
        *,
        commit: bool,
        coordinator_epoch: int,
        now_ms: int,
    ) -> AppendedMarker: ...

    def when_committed(self, commit_offset: Offset, callback: Done[ApiError | None]) -> None: ...


class Participants(Protocol):
    """The partitions transactions write to."""

    def find(self, partition: TopicPartition) -> MarkedPartition | None:
        """Return the partition; None where its topic is gone.

        ApiError where it is not served now.
        """

    def marked(self, partition: TopicPartition, producer_id: int, *, committed: bool) -> None:
        """Tell whoever keeps state of the partition's transactions that its marker holds."""


class Markers:
    """The markers of one decision. `done()` once every partition has its own."""

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
        self._state = state
        self._commit = state.status is TransactionStatus.PREPARE_COMMIT
        self._coordinator_epoch = coordinator_epoch
        self._participants = participants
        self._clock = clock
        self._retry_seconds = retry_seconds
        self._done = done
        self._missing = set(state.partitions)
        self._cancelled = False

    def start(self) -> None:
        """Write them; `done` may be called before this returns."""
        if not self._missing:
            self._done()
            return
        for partition in sorted(self._missing):
            self._write(partition)

    def cancel(self) -> None:
        """Write nothing more and call nobody."""
        self._cancelled = True

    def _write(self, partition: TopicPartition) -> None:
        if self._cancelled:
            return
        state = self._state
        try:
            found = self._participants.find(partition)
            if found is None:
                self._has_its_marker(partition)
                return
            appended = found.append_marker(
                state.producer_id,
                state.epoch,
                commit=self._commit,
                coordinator_epoch=self._coordinator_epoch,
                now_ms=self._clock.wall_ms(),
            )
        except ApiError as error:
            self._failed(partition, error)
            return
        found.when_committed(appended.commit_offset, partial(self._committed, partition))

    def _committed(self, partition: TopicPartition, error: ApiError | None) -> None:
        if error is not None:
            self._failed(partition, error)
            return
        self._participants.marked(partition, self._state.producer_id, committed=self._commit)
        self._has_its_marker(partition)

    def _failed(self, partition: TopicPartition, error: ApiError) -> None:
        if self._cancelled:
            return
        if error.code in _SUPERSEDED:
            _logger.warning("%s needs no marker of this transaction any more: %s", partition, error)
            self._has_its_marker(partition)
            return
        self._clock.call_later(self._retry_seconds, partial(self._write, partition))

    def _has_its_marker(self, partition: TopicPartition) -> None:
        if self._cancelled:
            return
        self._missing.discard(partition)
        if not self._missing:
            self._cancelled = True
            self._done()
