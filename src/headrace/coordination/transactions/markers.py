"""A decided transaction's markers: written in every partition of it, until every one has its own.

A marker holds once the partition's high watermark has passed it, which is when readers learn the
transaction's end. A partition that cannot take it now (its directory failed, too few replicas) is
asked again and again; one whose topic is gone needs none. Written twice, after a restart, a marker
does nothing the second time.
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
"""Called with each partition: None once its marker holds, or why it has none."""
_SUPERSEDED = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)


class Marker(NamedTuple):
    """What is written of a transaction's end, in each of its partitions."""

    producer_id: int
    epoch: int
    commit: bool
    coordinator_epoch: int


class Participants(Protocol):
    """The partitions transactions write to, on this broker and on others."""

    def exists(self, partition: TopicPartition) -> bool:
        """Tell whether the partition is there, led by whomever; False: its topic is gone."""

    def write(
        self, marker: Marker, partitions: Sequence[TopicPartition], done: MarkerWritten
    ) -> None:
        """Write the marker to all of them, by one request to each broker that leads some.

        `done` is called for each partition, now or later: once its marker holds and whoever keeps
        state of its transactions there was told, or with what kept it from being written.
        """


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
        commit = state.status is TransactionStatus.PREPARE_COMMIT
        self._marker = Marker(state.producer_id, state.epoch, commit, coordinator_epoch)
        self._participants = participants
        self._clock = clock
        self._retry_seconds = retry_seconds
        self._done = done
        self._missing = set(state.partitions)
        self._refused: list[TopicPartition] = []
        """Those that wait to be asked again, by one timer."""
        self._cancelled = False

    def start(self) -> None:
        """Write them; `done` may be called before this returns."""
        if self._missing:
            self._write(sorted(self._missing))
        else:
            self._done()

    def cancel(self) -> None:
        """Write nothing more and call nobody."""
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
        """Ask all that could not take it, together."""
        refused, self._refused = self._refused, []
        self._write(refused)

    def _has_its_marker(self, partition: TopicPartition) -> None:
        if self._cancelled:
            return
        self._missing.discard(partition)
        if not self._missing:
            self._cancelled = True
            self._done()
