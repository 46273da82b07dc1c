"""Offsets of a group on a coordinator and a clock that do what a test says."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

from headrace.coordination.groups.committed_offsets import Committed
from headrace.coordination.groups.messages import CommitRequest
from headrace.model.errors import ApiError, ErrorCode
from headrace.ports.callbacks import Done
from headrace.ports.clock import Clock
from headrace.subscriptions.group_offsets import GroupOffsets


class Coordinator:
    """A coordinator that stores when it is told to. Implements `OffsetCoordinator`."""

    def __init__(self) -> None:
        self.stored: dict[tuple[str, str, int], Committed] = {}
        self.asked: list[tuple[str, int, int]] = []
        """Topic, partition and offset of each write; -1 for a deletion."""
        self.flying: list[Callable[[ErrorCode], None]] = []
        self.fails: ErrorCode | None = None
        self.refuses: ErrorCode | None = None
        """The error of commits alone."""

    def commit(self, request: CommitRequest, done: Done[ErrorCode]) -> None:
        """Note a commit."""
        if self.fails or self.refuses:
            raise ApiError(self.fails or self.refuses or ErrorCode.NONE)
        ((topic, partition, offset, epoch, metadata),) = request.offsets
        assert (request.generation, request.member_id) == (-1, "")
        self.asked.append((topic, partition, offset))
        committed = Committed(offset, epoch, metadata, 0, request.retention_ms)
        place = (request.group_id, topic, partition)

        def end(code: ErrorCode) -> None:
            if code is ErrorCode.NONE:
                self.stored[place] = committed
            done(code)

        self.flying.append(end)

    def offset(self, group_id: str, topic: str, partition: int) -> Committed | None:
        """Return what is stored."""
        if self.fails:
            raise ApiError(self.fails)
        return self.stored.get((group_id, topic, partition))

    def delete_offsets(
        self,
        group_id: str,
        wanted: list[tuple[str, int]],
        done: Callable[[ErrorCode, list[ErrorCode]], None],
    ) -> None:
        """Note a deletion."""
        ((topic, partition),) = wanted
        self.asked.append((topic, partition, -1))

        def end(code: ErrorCode) -> None:
            if code is ErrorCode.NONE:
                del self.stored[group_id, topic, partition]
            done(code, [])

        self.flying.append(end)

    def land(self, code: ErrorCode = ErrorCode.NONE) -> None:
        """End the oldest write."""
        self.flying.pop(0)(code)


class Wall:
    """A clock that is set; its timers fire when the test says so."""

    def __init__(self) -> None:
        self.now_ms = 1000
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def wall_ms(self) -> int:
        """Return the time."""
        return self.now_ms

    def call_later(self, seconds: float, callback: Callable[[], None]) -> object:
        """Note a timer."""
        timer = seconds, callback
        self.timers.append(timer)
        return SimpleNamespace(cancel=lambda: self.timers.remove(timer))

    def fire(self) -> float:
        """Fire the oldest timer; return its seconds."""
        seconds, callback = self.timers.pop(0)
        callback()
        return seconds


class Play:
    """Offsets of queue t-0 of group g on a coordinator, and the answers to stores."""

    def __init__(self) -> None:
        self.coordinator = Coordinator()
        self.clock = Wall()
        self.offsets = GroupOffsets(lambda: self.coordinator, cast(Clock, self.clock))
        self.answers: list[tuple[int, ErrorCode]] = []

    def store(self, offset: int, partition: int = 0) -> None:
        """Store an offset."""
        self.offsets.store("g", "t", partition, offset, lambda c: self.answers.append((offset, c)))

    def read(self) -> int | None:
        """Return the offset."""
        return self.offsets.read("g", "t", 0)
