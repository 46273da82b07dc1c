"""One partition of an internal topic, and the state that is replayed from it.

A shard is `LOADING` until its partition's log is replayed to where it ended when leadership came,
and all of that is committed: what a former leader left at the end holds from then on. Then it is
`ACTIVE`; `FAILED` where the log could not be read (what lives in it cannot be served: answering
from half a log would lose some), and `CLOSED` once another broker leads. Only an active one is
asked anything.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from headrace.coordination.runtime.journal import Journal, JournalPartition
from headrace.coordination.runtime.loader import Loader, LoadLog
from headrace.coordination.runtime.replay_turns import ReplayTurns
from headrace.model.errors import ApiError, ErrorCode, HeadraceError
from headrace.ports.clock import Clock, Random
from headrace.ports.deadlines import Deadlines
from headrace.ports.disk import Disk
from headrace.record.compression import Codec, CorruptBatch

_logger = logging.getLogger(__name__)

APPEND_BYTES_MAX = 512 * 1024
"""Records of one turn are split into batches of about this size."""


class ShardPartition(JournalPartition, Protocol):
    """What a shard asks of `broker.partition.Partition`."""

    @property
    def log(self) -> LoadLog: ...


class ShardState(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


@dataclass(slots=True)
class World:
    """What the shards of a broker act in."""

    clock: Clock
    random: Random
    disk: Disk
    turns: ReplayTurns = field(init=False)
    """In which their logs are replayed."""

    def __post_init__(self) -> None:
        self.turns = ReplayTurns(self.clock)


@dataclass(frozen=True, slots=True)
class JournalLimits:
    """How a shard's records are appended."""

    timeout_ms: int
    """An append not committed by then is told to be late."""
    codec: Codec = Codec.NONE
    bytes_max: int = APPEND_BYTES_MAX


class Shard(ABC):
    """One partition, for as long as this broker leads it."""

    KEYED = True
    """Each record says all there is to its key: those that it supersedes need not be replayed."""

    def __init__(
        self,
        topic: str,
        index: int,
        partition: ShardPartition,
        *,
        epoch: int,
        world: World,
        limits: JournalLimits,
    ) -> None:
        self.index = index
        self.partition = partition
        self.epoch = epoch
        """Of the leadership; grows where this broker leads on under a later one."""
        self.state = ShardState.LOADING
        self.journal = Journal(
            partition,
            world.clock,
            bytes_max=limits.bytes_max,
            timeout_seconds=limits.timeout_ms / 1000,
            codec=limits.codec,
        )
        self.deadlines = Deadlines(world.clock)
        self._name = f"{topic}-{index}"
        self._waiting: list[Callable[[], None]] = []
        self._when_committed = partition.when_committed
        self._term_start = partition.log.end_offset
        self._loader = Loader(
            partition.log,
            self,
            turns=world.turns,
            disk=world.disk,
            keyed=self.KEYED,
            done=self._replayed,
        )

    # What lives in it says

    @abstractmethod
    def apply(
        self, log_offset: int, producer_id: int | None, key: bytes, value: bytes | None
    ) -> None:
        """Apply one record of the log; `producer_id` where it is of a transaction. CorruptBatch."""

    def replay_end(  # noqa: B027 - not every topic has transactions
        self, producer_id: int, *, committed: bool
    ) -> None:
        """Replay a transaction's marker: its records count, or never will."""

    @abstractmethod
    def loaded(self) -> None:
        """Begin to serve: the whole log is replayed and committed."""

    @abstractmethod
    def dropped(self) -> None:
        """Tell whoever waits that another broker leads, and keep nothing."""

    # What its owner does

    def load(self) -> None:
        """Begin the replay; a shard of an empty log is active before this returns."""
        self._loader.start()

    def unload(self) -> None:
        """Forget everything: whoever waits is told to find the new coordinator."""
        if self.state is ShardState.CLOSED:
            return
        self.state = ShardState.CLOSED
        self._loader.cancel()
        self.deadlines.close()
        self.journal.close(ErrorCode.NOT_COORDINATOR)
        self.dropped()
        self._tell_waiting()

    def check_active(self) -> None:
        """Raise ApiError COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR unless it serves."""
        if self.state is ShardState.LOADING:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        if self.state is not ShardState.ACTIVE:
            raise ApiError(ErrorCode.NOT_COORDINATOR)

    def when_loaded(self, callback: Callable[[], None]) -> None:
        """Call back once the shard is no longer loading: now if it is not."""
        if self.state is ShardState.LOADING:
            self._waiting.append(callback)
        else:
            callback()

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Apply a marker committed in the partition while it is led here."""
        if self.state is ShardState.ACTIVE:
            self.replay_end(producer_id, committed=committed)
        elif self.state is ShardState.LOADING:
            # The replay ends where the log ended when leadership came.
            self._waiting.append(lambda: self.end_transaction(producer_id, committed=committed))

    # `loader.Replayed`

    def replay(
        self, log_offset: int, producer_id: int | None, key: bytes | None, value: bytes | None
    ) -> None:
        """Apply one record; one that is unintelligible is passed over."""
        try:
            self.apply(log_offset, producer_id, key or b"", value)
        except CorruptBatch as error:
            _logger.warning(
                "%s: record at offset %d is passed over: %s", self._name, log_offset, error
            )

    def _replayed(self, error: HeadraceError | None) -> None:
        if error is None:
            self._when_committed(self._term_start, self._committed)
            return
        self.state = ShardState.FAILED
        _logger.error(
            "%s cannot be read, nothing of it is served: %s: mend it with headrace log repair, "
            "or restore it from a copy, while the broker is stopped", self._name, error,
        )  # fmt: skip
        self._tell_waiting()

    def _committed(self, error: ApiError | None) -> None:
        if error is None and self.state is ShardState.LOADING:
            self.state = ShardState.ACTIVE
            self.loaded()
            self._tell_waiting()

    def _tell_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback()
