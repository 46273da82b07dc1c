"""The power goes at every operation the log hands to its disk; whatever is left must recover.

What must hold after each recovery (G12): everything that was told as flushed is there, every offset
holds the value it was given or is not there yet, nothing is missing in between, and the log goes on
working. The last tests plant a fault and demand that this very check finds it.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

import pytest

from headrace.config.topic import LogConfig
from headrace.log.bounds import read_bound
from headrace.log.flusher import Done, Strategy, fdatasync_each
from headrace.log.housekeeping import Periods
from headrace.log.log import Log
from headrace.model.nouns import Offset, TopicPartition
from headrace.testing.disk import SimDisk
from headrace.testing.disk_crash import crash_states
from headrace.world.disk import Disk, DiskFile
from tests.support.log import CONFIG, NOW_MS, PLACE, TOPIC_ID, World, append, append_marker, values

SMALL = LogConfig(segment_bytes=600, index_interval_bytes=150, segment_index_bytes=256)


@dataclass
class Story:
    """What was done to one partition, and what was promised when (by number of disk operations)."""

    world: World
    told: dict[int, bytes | None] = field(default_factory=dict)
    """Offset to value; None: a marker."""
    flushed: list[tuple[int, int]] = field(default_factory=list)
    starts: list[tuple[int, int]] = field(default_factory=list)

    def watch(self, log: Log) -> None:
        def flushed(upto: Offset) -> None:
            self.flushed.append((len(self.world.disk.ops), upto))
            log.high_watermark = upto
            log.publish()

        log.on_flushed = flushed

    def append(self, log: Log, *many: bytes, **how: object) -> None:
        base = append(log, *many, **how).base_offset  # type: ignore[arg-type]
        self.told.update({base + at: value for at, value in enumerate(many)})

    def move_start(self, log: Log, move: Callable[[], object]) -> None:
        """From the first operation of `move` on the log may start where it then does."""
        before = len(self.world.disk.ops)
        move()
        self.starts.append((before, log.start_offset))

    def promised(self, cut: int) -> int:
        return max((upto for ops, upto in self.flushed if ops <= cut), default=0)

    def start_by(self, cut: int) -> int:
        return max((start for ops, start in self.starts if ops <= cut), default=0)


def appends_and_flushes(story: Story) -> None:
    world = story.world
    log = world.log()
    story.watch(log)
    for number in range(6):
        story.append(log, b"%d" % number, b"x" * (number * 90))
        if number % 2:
            world.flush(log)
    world.directory.flusher.flush_soon(log)
    world.clock.turn()
    story.append(log, b"written while the flush runs")
    world.settle()
    world.flush(log)


def rolls(story: Story) -> None:
    world = story.world
    log = world.log()
    story.watch(log)
    for number in range(8):
        story.append(log, b"r%d" % number * 60, producer=(7, 0, number))
        if number in (1, 4, 6):
            world.flush(log)
    assert len(log.segments) > 2
    world.directory.checkpoint()
    world.settle()
    story.append(log, b"after the checkpoint", producer=(7, 0, 8))
    world.flush(log)


def retention(story: Story) -> None:
    world = story.world
    log = world.log()
    story.watch(log)
    for number in range(8):
        story.append(log, b"o%d" % number * 60)
    world.flush(log)
    log.config = LogConfig(segment_bytes=600, retention_bytes=700, file_delete_delay_ms=1000)
    story.move_start(log, lambda: log.apply_retention(NOW_MS))
    assert log.start_offset > 0
    story.append(log, b"later")
    world.flush(log)
    world.clock.advance(2)
    world.settle()


def deleted_records(story: Story) -> None:
    world = story.world
    log = world.log()
    story.watch(log)
    for number in range(7):
        story.append(log, b"d%d" % number * 60)
    world.flush(log)
    story.move_start(log, lambda: log.delete_records(Offset(5)))
    world.settle()
    world.directory.apply_retention()
    story.append(log, b"later")
    world.flush(log)


def checkpoints(story: Story) -> None:
    world = story.world
    log = world.log()
    story.watch(log)
    for number in range(4):
        story.append(log, b"c%d" % number * 40, epoch=number)
        world.flush(log)
        world.directory.checkpoint()
        world.settle()


def transactions(story: Story) -> None:
    world = story.world
    log = world.log()
    story.watch(log)
    for number in range(4):
        story.append(log, b"t%d" % number * 30, producer=(9, 0, number), transactional=True)
        story.told[append_marker(log, 9, commit=bool(number % 2)).base_offset] = None
        world.flush(log)


def stop_and_start(story: Story) -> None:
    world = story.world
    log = world.log()
    story.watch(log)
    story.append(log, b"before", producer=(5, 0, 0))
    world.flush(log)
    story.append(log, b"before the stop", producer=(5, 0, 1))
    world.restart(clean=True)
    story.flushed.append((len(world.disk.ops), 2))
    log = world.log()
    story.watch(log)
    story.append(log, b"after" * 90, producer=(5, 0, 2))
    world.flush(log)


WORKLOADS = [
    appends_and_flushes,
    rolls,
    retention,
    deleted_records,
    checkpoints,
    transactions,
    stop_and_start,
]


def told(workload: Callable[[Story], None], strategy: Strategy = fdatasync_each) -> Story:
    story = Story(World(config=SMALL, strategy=strategy))
    workload(story)
    return story


def problems(story: Story, cut: int, left: SimDisk) -> Iterator[str]:
    """What is wrong with the disk that a cut left, after recovery."""
    readable = read_bound(left, "/data", PLACE, TOPIC_ID).end
    world = World(left, config=SMALL)
    for place, error in world.directory.quarantined.items():
        yield f"{place} was put out of service: {error}"
    log = world.directory.logs.get(PLACE)
    promised = story.promised(cut)
    if log is None:
        if promised:
            yield f"the partition is gone, {promised} offsets were flushed"
        return
    found = values(log)
    if readable is not None and readable > min(promised, log.end_offset):
        yield f"readers are let up to {readable}, {promised} of {log.end_offset} were flushed"
    if log.end_offset < promised:
        yield f"ends at {log.end_offset}, {promised} were flushed"
    if log.start_offset > story.start_by(cut):
        yield f"starts at {log.start_offset}, moved up only to {story.start_by(cut)}"
    for offset in range(log.start_offset, log.end_offset):
        wanted = story.told.get(offset)
        if found.get(offset) != wanted:
            yield f"offset {offset} holds {found.get(offset)!r}, not {wanted!r}"
    end = log.end_offset
    append(log, b"goes on")
    world.flush(log)
    if log.flushed_offset != end + 1 or values(log, end) != {end: b"goes on"}:
        yield "does not go on"
    world.close()


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda one: one.__name__)
def test_whatever_a_power_cut_leaves_recovers_to_what_was_promised(
    workload: Callable[[Story], None],
) -> None:
    story = told(workload)
    states = 0
    for cut in range(len(story.world.disk.ops) + 1):
        for left in crash_states(story.world.disk, cut, seed=1, samples=3):
            assert list(problems(story, cut, left)) == [], f"cut before operation {cut}"
            states += 1
    assert states > 100


@pytest.mark.parametrize("workload", [rolls, retention], ids=lambda one: one.__name__)
def test_a_second_power_cut_during_recovery_loses_no_more(
    workload: Callable[[Story], None],
) -> None:
    story = told(workload)
    for cut in range(0, len(story.world.disk.ops) + 1, 5):
        for left in crash_states(story.world.disk, cut, seed=2, samples=1):
            World(left, config=SMALL).close()
            for again in range(len(left.ops) + 1):
                for twice in crash_states(left, again, seed=3, samples=1):
                    found = list(problems(story, cut, twice))
                    assert found == [], f"cut before operation {cut}, then {again}"


def answer_first(disk: Disk, files: Collection[DiskFile], done: Done) -> None:
    """The planted fault: tell that it is durable, then make it so."""
    done(None)
    disk.flush(files, lambda _: None)


def forget_the_oldest(disk: Disk, files: Collection[DiskFile], done: Done) -> None:
    """Another one: of several files the first is left out, as if only the active one counted."""
    disk.flush(list(files)[-1:], done)


@pytest.mark.parametrize("fault", [answer_first, forget_the_oldest], ids=lambda one: one.__name__)
def test_a_flusher_that_lies_is_found(fault: Strategy) -> None:
    story = told(rolls, fault)
    found = [
        problem
        for cut in range(len(story.world.disk.ops) + 1)
        for left in crash_states(story.world.disk, cut, seed=1, samples=1)
        for problem in problems(story, cut, left)
    ]
    assert any("were flushed" in problem for problem in found)


def test_a_topics_deletion_that_was_made_durable_stays() -> None:
    world = World(config=SMALL)
    log = world.log()
    append(log, b"doomed")
    world.flush(log)
    world.directory.delete_log(PLACE)
    world.settle()
    durable = len(world.disk.ops)
    world.clock.advance(61)
    world.settle()
    for cut in range(durable, len(world.disk.ops) + 1):
        for left in crash_states(world.disk, cut, seed=1):
            after = World(left, config=SMALL)
            assert PLACE not in after.directory.logs
            assert not [name for name in left.list("/data") if name.endswith("-delete")]
            after.close()


def test_a_topics_creation_is_whole_or_not_there() -> None:
    world = World(config=CONFIG)
    other = TopicPartition("u", 3)
    world.log()
    world.log(other)
    world.settle()
    for cut in range(len(world.disk.ops) + 1):
        for left in crash_states(world.disk, cut, seed=1):
            after = World(left, config=CONFIG)
            assert not after.directory.quarantined
            for log in after.directory.logs.values():
                assert log.end_offset == 0
                append(log, b"works")
            if cut == len(world.disk.ops):
                assert set(after.directory.logs) == {PLACE, other}
            after.close()


def test_a_clean_stop_is_believed_only_when_everything_is_on_the_platter() -> None:
    world = World(config=SMALL, periods=Periods())
    log = world.log()
    for number in range(5):
        append(log, b"s%d" % number * 40)
    world.directory.close()
    total = len(world.disk.ops)
    wanted = values_of_clean(world.disk)
    for cut in range(total + 1):
        for left in crash_states(world.disk, cut, seed=1):
            after = World(left, config=SMALL)
            if after.directory.was_clean:
                assert values(after.directory.logs[PLACE]) == wanted
            after.close()


def values_of_clean(disk: SimDisk) -> dict[int, bytes | None]:
    """What the last state holds, read from the disk that lost nothing."""
    left = list(crash_states(disk, len(disk.ops), seed=1, samples=0))[1]
    after = World(left, config=SMALL)
    assert after.directory.was_clean
    found = values(after.directory.logs[PLACE])
    after.close()
    return found
