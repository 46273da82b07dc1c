"""`Shard`: one partition of an internal topic, and the state that is replayed from its log.

    LOADING ──► log replayed to its end at the start of leadership, all committed ──► ACTIVE
       │ └────► log cannot be read: FAILED, as part of the log would give wrong state
       └──────► another broker leads: CLOSED (from any state)

Requests are served only by an ACTIVE shard. Records that a former leader left at the end of the log
count once they are committed.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from headrace.model.errors import ApiError, ErrorCode, HeadraceError
from headrace.model.nouns import Offset
from headrace.ports.clock import Clock, Random
from headrace.ports.deadlines import Deadlines
from headrace.ports.disk import Disk
from headrace.record.compression import Codec, CorruptBatch
from headrace.shards.journal import Journal, JournalPartition
from headrace.shards.loader import Loader, LoadLog
from headrace.shards.replay_turns import ReplayTurns

_logger = logging.getLogger(__name__)

APPEND_BYTES_MAX = 512 * 1024
"""Approximate size in bytes of a batch of records appended in one turn."""


class ShardPartition(JournalPartition, Protocol):
    """The part of `broker.partition.Partition` that a shard uses."""

    @property
    def log(self) -> LoadLog: ...


class ShardState(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


@dataclass(slots=True)
class World:
    """The clock, random source and disk of a broker's shards, and the turns of their replays."""

    clock: Clock
    random: Random
    disk: Disk
    turns: ReplayTurns = field(init=False)
    """The queue in which all shards' logs are replayed."""

    def __post_init__(self) -> None:
        self.turns = ReplayTurns(self.clock)


@dataclass(frozen=True, slots=True)
class JournalLimits:
    """Bounds on the appends of a shard."""

    timeout_ms: int
    """Milliseconds after which an uncommitted append is reported as late."""
    codec: Codec = Codec.NONE
    bytes_max: int = APPEND_BYTES_MAX


class Shard(ABC):
    """The state of one partition of an internal topic, while this broker leads it."""

    KEYED = True
    """Whether each record supersedes the earlier ones of its key, so that only the last is
    replayed."""

    def __init__(
        self,
        topic: str,
        index: int,
        partition: ShardPartition,
        *,
        epoch: int,
        world: World,
        limits: JournalLimits,
        start: Offset | None = None,
    ) -> None:
        """Create the shard of a partition, not loaded.

        `start`: the offset below which the state has all records already; None: it has none.
        """
        self.index = index
        self.partition = partition
        self.epoch = epoch
        """Leader epoch; increased if this broker continues to lead under a later one."""
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
            start=start,
        )

    # Implemented by subclasses

    @abstractmethod
    def apply(
        self, log_offset: int, producer_id: int | None, key: bytes, value: bytes | None
    ) -> None:
        """Apply a record; `producer_id`: of the transaction that wrote it, or None.

        Raises CorruptBatch.
        """

    def replay_end(  # noqa: B027 - not every topic has transactions
        self, producer_id: int, *, committed: bool
    ) -> None:
        """Apply a transaction marker: commit or abort the producer's pending records."""

    @abstractmethod
    def loaded(self) -> None:
        """Begin to serve: the log is replayed and its records are committed."""

    @abstractmethod
    def dropped(self) -> None:
        """Release all state and end pending requests: another broker leads."""

    # Called by the owner (`LedShards`)

    def load(self) -> None:
        """Begin the replay; the shard of an empty log may be active before this returns."""
        self._loader.start()

    def unload(self) -> None:
        """Close the shard and drop its state; pending requests end with NOT_COORDINATOR."""
        if self.state is ShardState.CLOSED:
            return
        self.state = ShardState.CLOSED
        self._loader.cancel()
        self.deadlines.close()
        self.journal.close(ErrorCode.NOT_COORDINATOR)
        self.dropped()
        self._tell_waiting()

    @property
    def is_active(self) -> bool:
        """Whether the shard is loaded, and this broker leads its partition."""
        return self.state is ShardState.ACTIVE

    def check_active(self) -> None:
        """Raise COORDINATOR_LOAD_IN_PROGRESS or NOT_COORDINATOR unless the shard is active."""
        if self.state is ShardState.LOADING:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        if self.state is not ShardState.ACTIVE:
            raise ApiError(ErrorCode.NOT_COORDINATOR)

    def when_loaded(self, callback: Callable[[], None]) -> None:
        """Call `callback` once the shard is not loading; at once if it is not now."""
        if self.state is ShardState.LOADING:
            self._waiting.append(callback)
        else:
            callback()

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Apply a marker that was committed in the partition while this broker leads it."""
        if self.state is ShardState.ACTIVE:
            self.replay_end(producer_id, committed=committed)
        elif self.state is ShardState.LOADING:
            # Markers behind the replay's end offset are applied after it.
            self._waiting.append(lambda: self.end_transaction(producer_id, committed=committed))

    # `loader.Replayed`

    def replay(
        self, log_offset: int, producer_id: int | None, key: bytes | None, value: bytes | None
    ) -> None:
        """Apply one record; a malformed one is logged and skipped."""
        try:
            self.apply(log_offset, producer_id, key or b"", value)
        except CorruptBatch as error:
            _logger.warning(
                "%s: malformed record at offset %d is skipped: %s", self._name, log_offset, error
            )

    def _replayed(self, error: HeadraceError | None) -> None:
        if error is None:
            self._when_committed(self._term_start, self._committed)
            return
        self.state = ShardState.FAILED
        _logger.error(
            "%s: cannot load the coordinator's state: %s. Clients get NOT_COORDINATOR for it. Stop"
            " the broker and run headrace log repair, or restore the log from a copy",
            self._name, error,
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
