"""When what is settled is written, on a disk whose flushes take their time."""

from collections.abc import Callable

import pytest

from headrace.queue_stores.log.settled_files import (
    SETTLED_WRITE_SECONDS,
    SettledFiles,
    SettledFrame,
)
from headrace.testing.clock import SimClock
from headrace.testing.disk import SimDisk

MILLISECOND = 0.001
TOLERANCE = 1e-9


class SlowDisk(SimDisk):
    """A disk whose flushes take `seconds` each, one after the other; so do its other jobs."""

    def __init__(self, clock: SimClock, seconds: float) -> None:
        super().__init__()
        self.clock = clock
        self.seconds = seconds
        self.free_at = {True: 0.0, False: 0.0}

    def _hand_over(self, job: Callable[[], None], *, flush: bool) -> None:
        now = self.clock.monotonic()
        self.free_at[flush] = max(self.free_at[flush], now) + self.seconds
        self.clock.call_later(self.free_at[flush] - now, job)


class Frame:
    """One write of a queue's numbers."""

    def __init__(self, queue: "Acknowledged", at: int | None, numbers: list[int]) -> None:
        self.queue = queue
        self.path = queue.path
        self.at = at
        self.numbers = numbers
        self.content = b"x" * len(numbers)

    def written(self, error: OSError | None) -> None:
        """Note how long it took until it was durable."""
        assert error is None
        self.queue.durable(self.numbers)


class Acknowledged:
    """A queue of which a message is acknowledged now and then; notes how long each waits."""

    def __init__(self, files: SettledFiles, clock: SimClock, path: str, at: int | None) -> None:
        """`at`: where its file ends; 0: it has none yet, None: it is to be replaced."""
        self.path = path
        self.files = files
        self.clock = clock
        self.acknowledged: list[float] = []
        self.waited: list[float] = []
        """Until it was written, which is what outlives a kill."""
        self.flushed: list[float] = []
        """Until it was durable."""
        self._fresh: list[int] = []
        self._end = at
        self._size = at or 0
        if at:
            file = files.disk.open(path, create=True)
            file.write_at(0, (b"x" * at,))
            file.close()

    def acknowledge(self) -> None:
        """Acknowledge one."""
        self._fresh.append(len(self.acknowledged))
        self.acknowledged.append(self.clock.monotonic())
        self.files.note_changed(self)

    def take_frame(self) -> SettledFrame | None:
        """Return what is new. `Changing`."""
        numbers, self._fresh = self._fresh, []
        now = self.clock.monotonic()
        self.waited += [now - self.acknowledged[number] for number in numbers]
        frame = Frame(self, self._end, numbers)
        self._size += len(numbers)
        self._end = self._size
        return frame

    def durable(self, numbers: list[int]) -> None:
        """Note that it is."""
        now = self.clock.monotonic()
        self.flushed += [now - self.acknowledged[number] for number in numbers]


class Played:
    """A slow disk, and queues on it."""

    def __init__(self, flush_seconds: float) -> None:
        self.clock = SimClock()
        self.disk = SlowDisk(self.clock, flush_seconds)
        self.files = SettledFiles(self.disk, self.clock)
        self.queues: list[Acknowledged] = []

    def queue(self, at: int | None = 1) -> Acknowledged:
        path = f"/settled-{len(self.queues)}"
        self.queues.append(Acknowledged(self.files, self.clock, path, at))
        return self.queues[-1]

    def finish(self) -> None:
        """Let all become durable."""
        self.clock.advance(20)
        for queue in self.queues:
            assert len(queue.flushed) == len(queue.acknowledged) > 0


def waits(flush_seconds: float, every_ms: int = 1) -> tuple[float, float]:
    """Acknowledge for three seconds; how long one waited at most to be written, and flushed."""
    played = Played(flush_seconds)
    queue = played.queue()
    for number in range(3000):
        played.clock.advance(MILLISECOND)
        if number % every_ms == 0:
            queue.acknowledge()
    played.finish()
    return max(queue.waited), max(queue.flushed)


@pytest.mark.parametrize("flush_seconds", [0.0005, 0.01, 0.02, 0.03, 0.04, 0.05])
def test_on_a_disk_that_flushes_in_half_the_time_all_is_durable_within_100_ms(
    flush_seconds: float,
) -> None:
    written, flushed = waits(flush_seconds)
    assert written <= SETTLED_WRITE_SECONDS + TOLERANCE
    assert flushed <= SETTLED_WRITE_SECONDS + flush_seconds + TOLERANCE <= 0.1 + 2 * TOLERANCE


@pytest.mark.parametrize("flush_seconds", [0.0601, 0.0777, 0.12, 0.2, 0.33, 0.5])
@pytest.mark.parametrize("every_ms", [1, 7, 51])
def test_on_a_slower_disk_nothing_waits_longer_than_for_the_flush_that_is_under_way(
    flush_seconds: float, every_ms: int
) -> None:
    written, flushed = waits(flush_seconds, every_ms)
    assert written <= flush_seconds + TOLERANCE
    assert flushed <= 2 * flush_seconds + TOLERANCE


def test_what_changes_while_a_flush_is_under_way_waits_its_own_time_where_that_is_later() -> None:
    played = Played(0.03)
    queue = played.queue()
    queue.acknowledge()
    played.clock.advance(0.06)
    queue.acknowledge()
    played.clock.advance(0.049)
    assert len(queue.waited) == 1
    played.clock.advance(0.002)
    assert len(queue.waited) == 2


def test_of_many_queues_that_change_none_is_passed_over_while_others_are_busy() -> None:
    played = Played(0.15)
    queues = [played.queue() for _ in range(20)]
    for number in range(2000):
        played.clock.advance(MILLISECOND)
        queues[number % 3].acknowledge()
        if number % 97 == 0:
            queues[3 + number % 17].acknowledge()
    played.finish()
    assert max(seconds for queue in queues for seconds in queue.waited) <= 0.15 + TOLERANCE


@pytest.mark.parametrize("at", [0, None], ids=["made", "replaced"])
def test_no_queue_waits_for_the_files_of_others(at: int | None) -> None:
    played = Played(0.02)
    busy = played.queue()
    for _ in range(100):
        played.queue(at).acknowledge()
    for _ in range(3000):
        played.clock.advance(MILLISECOND)
        busy.acknowledge()
    played.finish()
    assert max(busy.flushed) <= SETTLED_WRITE_SECONDS + 0.02 + TOLERANCE


def test_what_changes_while_a_file_is_replaced_is_written_behind_it_as_soon_as_it_is() -> None:
    played = Played(0.3)
    queue = played.queue(None)
    queue.acknowledge()
    played.clock.advance(0.06)
    queue.acknowledge()
    played.clock.advance(0.285)
    assert len(queue.waited) == 1
    played.clock.advance(0.01)
    assert len(queue.waited) == 2
    assert not played.disk.exists(f"{queue.path}.tmp")
    played.finish()
    assert played.disk.open(queue.path).size() == 2
