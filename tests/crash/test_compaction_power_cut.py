"""The power goes at every operation of a compaction and of the swap, and again during recovery.

What must hold after each recovery: the newest record of every key is at its offset with its value,
no record is there that was never written, nothing that was flushed is missing from the part that is
not compacted, and the log goes on, compaction included. A planted fault must be found by this.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from headrace.log import file_names
from headrace.log.compaction import swap_segments
from headrace.log.compaction.job import Cleaned
from headrace.log.log import Log
from headrace.log.segment.segment import Segment
from headrace.model.errors import ApiError
from headrace.model.nouns import Offset
from headrace.record import batch as wire
from headrace.testing.disk import SimDisk
from headrace.testing.disk_crash import crash_states
from tests.support.log.compaction import (
    COMPACTED,
    Row,
    cleaner_of,
    compact_now,
    newest,
    put,
    rows,
)
from tests.support.log.crash import COUNTS, Count, fingerprint
from tests.support.log.log import PLACE, World, append_marker

DIFFERENT_MIN = 20
SMALL = replace(COMPACTED, segment_bytes=420, index_interval_bytes=100, segment_index_bytes=256)


class Story:
    """One compaction: what was written, and what the log held before and after."""

    def __init__(self, write: Callable[[Log], None], rounds: int = 1) -> None:
        self.world = World(config=SMALL)
        log = self.world.log()
        self.cleaner = cleaner_of(self.world)
        for number in range(rounds):
            if number:
                compact_now(self.world, self.cleaner)
            write(log)
            self.world.flush(log)
        self.world.directory.checkpoint()
        self.world.settle()
        self.before = rows(log, committed=True)
        self.upper = log.segments[-1].base_offset
        self.begun = len(self.world.disk.ops)
        compact_now(self.world, self.cleaner)
        assert self.cleaner.compactions == rounds
        self.after = rows(log, committed=True)
        assert newest(self.after) == newest(self.before)
        assert len(self.after) < len(self.before)

    def cuts(self) -> range:
        return range(self.begun, len(self.world.disk.ops) + 1)


def plain(log: Log) -> None:
    for at in range(14):
        put(log, *[(b"k%d" % ((at * 3 + one) % 7), b"v%d.%d" % (at, one)) for one in range(3)])


def transactions(log: Log) -> None:
    for at in range(7):
        sequence = log.producers.kept.entries()[0].last_sequence + 1 if len(log.producers) else 0
        put(
            log, (b"t%d" % (at % 3), b"txn %d" % at),
            producer=(9, 0, sequence), transactional=True, codec=wire.Codec.GZIP,
        )  # fmt: skip
        append_marker(log, 9, commit=bool(at % 2))
        put(log, (b"t%d" % (at % 4), b"plain %d" % at), (b"gone", None))


def few_transactions(log: Log) -> None:
    put(log, (b"k", b"first"), (b"k", b"second"), (b"j", b"stays"))
    put(log, (b"k", b"aborted" * 9), producer=(9, 0, 0), transactional=True)
    append_marker(log, 9, commit=False)
    for at in range(3):
        put(log, (b"k", b"plain %d" % at * 9), (b"gone", None))


def tombstones(log: Log) -> None:
    for at in range(12):
        value = None if at % 3 == 2 else b"value of %d" % at
        put(log, (b"a%d" % (at % 4), value), (b"b", b"%d" % at), (b"c%d" % at, b""))


def superseded_later(log: Log) -> None:
    """Whole segments of which nothing stays, at the end of what is compacted too."""
    for at in range(10):
        put(log, (b"same", b"%d" % at * 20), (b"twice", b"%d" % at * 20))


WORKLOADS = [plain, transactions, tombstones, superseded_later]


def problems(story: Story, left: SimDisk) -> Iterator[str]:
    """What is wrong with the disk that a cut left, after recovery."""
    world = World(left, config=SMALL)
    for place, error in world.directory.quarantined.items():
        yield f"{place} was put out of service: {error}"
    log = world.directory.logs.get(PLACE)
    if log is None:
        yield "the partition is gone"
        return
    try:
        held = rows(log, committed=True)
    except ApiError as error:
        yield f"not readable: {error}"
        return
    yield from differences(story, held, "after recovery")
    if [name for name in left.list(log.directory) if name.count(".") > 1]:
        yield f"left over: {left.list(log.directory)}"
    put(log, (b"goes on", b"yes"))
    world.flush(log)
    cleaner = cleaner_of(world)
    compact_now(world, cleaner)
    if cleaner.uncleanable:
        yield f"cannot be compacted any more: {cleaner.uncleanable}"
    found = rows(log, committed=True)
    if found[-1][1:] != (b"goes on", b"yes"):
        yield "does not go on"
    yield from differences(story, found[:-1], "after another compaction")
    world.close()


def differences(story: Story, found: list[Row], when: str) -> Iterator[str]:
    if newest(found) != newest(story.before):
        wanted = {key: at for key, at in newest(story.before).items() if at[1] is not None}
        live = {key: at for key, at in newest(found).items() if at[1] is not None}
        if live != wanted:
            yield f"{when}: {live} instead of {wanted}"
    if not set(found) <= set(story.before):
        yield f"{when}: never written: {set(found) - set(story.before)}"
    active = [[row for row in some if row[0] >= story.upper] for some in (found, story.before)]
    if active[0] != active[1] and when == "after recovery":
        yield f"{when}: the active segment is not what it was"
    if [row[0] for row in found] != sorted({row[0] for row in found}):
        yield f"{when}: offsets do not grow"


@pytest.mark.parametrize(
    ("write", "rounds"),
    [*((write, 1) for write in WORKLOADS), (tombstones, 2)],
    ids=lambda one: getattr(one, "__name__", str(one)),
)
def test_whatever_a_power_cut_leaves_of_a_compaction_recovers(
    write: Callable[[Log], None], rounds: int
) -> None:
    story = Story(write, rounds)
    cuts = states = 0
    seen: set[bytes] = set()
    for cut in story.cuts():
        cuts += 1
        for left in crash_states(story.world.disk, cut, seed=1, samples=1):
            states += 1
            if (key := fingerprint(left)) in seen:
                continue  # what must hold is the same at every cut: equal disks are judged once
            seen.add(key)
            assert list(problems(story, left)) == [], f"cut before operation {cut}"
    assert len(seen) > DIFFERENT_MIN
    COUNTS[f"compaction of {write.__name__}, {rounds}"] = Count(cuts, states, len(seen))


@pytest.mark.parametrize("write", [few_transactions, superseded_later])
def test_a_second_power_cut_while_a_swap_is_finished_loses_no_more(
    write: Callable[[Log], None],
) -> None:
    story = Story(write)
    for cut in story.cuts():
        _, left = crash_states(story.world.disk, cut, seed=2, samples=0)
        if any(
            name.endswith((file_names.SWAP, file_names.CLEANED)) for name in left.list("/data/t-0")
        ):
            World(left, config=SMALL).close()
            for again in range(len(left.ops) + 1):
                for twice in crash_states(left, again, seed=3, samples=0):
                    found = list(problems(story, twice))
                    assert found == [], f"cut before operation {cut}, then {again}"


def found_in(story: Story, samples: int = 1) -> list[str]:
    return [
        problem
        for cut in story.cuts()
        for left in crash_states(story.world.disk, cut, seed=1, samples=samples)
        for problem in problems(story, left)
    ]


def test_a_swap_of_files_that_were_not_flushed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    seal = Segment.seal
    monkeypatch.setattr(Segment, "seal", lambda self: seal(self) and [])
    assert found_in(Story(plain))


def test_old_segments_that_go_before_the_new_one_counts_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def wrong_order(log: Log, cleaned: Cleaned, at: int) -> list[Segment]:
        disk = log.context.disk
        old = log.segments[at : at + len(cleaned.sources)]
        base = f"{log.directory}/{file_names.segment_file(cleaned.base_offset, '')}"
        for segment in old:
            segment.rename_away(file_names.DELETED)
        for suffix in cleaned.files:
            disk.rename(f"{base}{suffix}.cleaned", f"{base}{suffix}")
        new = log.segments.make(Offset(cleaned.base_offset), log.config)
        new.size = cleaned.size
        log.segments.replace([*log.segments[:at], new, *log.segments[at + len(old) :]])
        return old

    monkeypatch.setattr(swap_segments, "swap_in", wrong_order)
    assert found_in(Story(plain))
