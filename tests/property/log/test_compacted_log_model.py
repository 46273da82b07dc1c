"""A compacted log under any mix of operations stays what its newest records say.

Beside it a dict of all that was ever appended and not cut. What compaction may take away is noted
when it runs: a record that a later one supersedes below where it goes, and tombstones.
"""

from dataclasses import replace
from itertools import islice

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headrace.log.log import Log
from headrace.log.retention import apply_retention
from headrace.model.nouns import Offset
from headrace.record import batch as wire
from headrace.testing.disk_crash import crash_states
from tests.property.log.test_log_model import model_settings
from tests.support.log.compaction import (
    COMPACTED,
    batches_of,
    cleaner_of,
    compact_now,
    put,
    rows,
)
from tests.support.log.log import NOW_MS, World, truncate_to

SMALL = replace(COMPACTED, segment_bytes=420, index_interval_bytes=100, segment_index_bytes=256)
KEYS = [b"a", b"b", b"c", b"d"]


class CompactedLogModel(RuleBasedStateMachine):
    """Offsets to keys and values; `may_go`: what compaction was free to remove."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(config=SMALL)
        self.log = self.world.log()
        self.cleaner = cleaner_of(self.world)
        self.records: dict[int, tuple[bytes, bytes | None]] = {}
        self.may_go: set[int] = set()
        self.start = 0
        self.drawn = 0

    def teardown(self) -> None:
        self.world.close()

    # --- what is done --------------------------------------------------------------------------

    @rule(
        keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=4),
        size=st.integers(0, 60),
        tombstone=st.booleans(),
        codec=st.sampled_from([wire.Codec.NONE, wire.Codec.GZIP]),
    )
    def append(self, keys: list[bytes], size: int, tombstone: bool, codec: wire.Codec) -> None:
        self.drawn += 1
        value = None if tombstone else b"%03d" % self.drawn + b"v" * size
        done = put(self.log, *[(key, value) for key in keys], codec=codec)
        for at, key in enumerate(keys):
            self.records[done.base_offset + at] = (key, value)

    @rule()
    def flush(self) -> None:
        self.world.flush(self.log)

    @rule()
    def roll(self) -> None:
        if self.log.segments[-1].size:
            self.log.roll()

    @rule()
    def checkpoint(self) -> None:
        self.world.directory.checkpoint()
        self.world.settle()

    @rule()
    def compact(self) -> None:
        self.world.flush(self.log)
        self.note_what_may_go()
        compact_now(self.world, self.cleaner)
        assert not self.cleaner.uncleanable

    def note_what_may_go(self) -> None:
        """Before the clock moves on, for that wakes the cleaner."""
        upper = self.log.segments[-1].base_offset
        later: set[bytes] = set()
        for offset in sorted((one for one in self.records if one < upper), reverse=True):
            key, value = self.records[offset]
            if key in later or value is None:
                self.may_go.add(offset)
            later.add(key)

    @rule(seconds=st.integers(1, 5))
    def wait(self, seconds: int) -> None:
        """Delete horizons pass, replaced segments go."""
        self.note_what_may_go()
        self.world.clock.advance(seconds)
        self.world.settle()

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        before = data.draw(st.integers(self.log.start_offset, self.log.high_watermark))
        self.log.delete_records(Offset(before))
        self.world.settle()
        apply_retention(self.log, NOW_MS)
        self.start = self.log.start_offset

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        target = data.draw(st.integers(self.log.start_offset, self.log.end_offset))
        truncate_to(self.log, Offset(target))
        assert self.log.end_offset <= target
        self.cut_model()

    def cut_model(self) -> None:
        end = self.log.end_offset
        self.records = {at: row for at, row in self.records.items() if at < end}
        self.may_go = {at for at in self.may_go if at < end}

    # --- restarts ------------------------------------------------------------------------------

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        end = self.log.end_offset
        self.cleaner.close()
        self.world.restart(clean=clean)
        assert not self.world.directory.quarantined
        self._taken_up()
        assert self.log.end_offset == end

    @rule(sample=st.integers(0, 4), seed=st.integers(0, 1000))
    def power_cut(self, sample: int, seed: int) -> None:
        flushed = self.log.flushed_offset
        disk = self.world.disk
        states = crash_states(disk, len(disk.ops), seed=seed, samples=3)
        left = next(islice(states, sample, None))
        self.cleaner.close()
        self.world.close()
        self.world = World(left, config=SMALL)
        assert not self.world.directory.quarantined
        self._taken_up()
        assert self.log.end_offset >= flushed
        assert self.log.start_offset <= self.start
        self.start = self.log.start_offset
        self.cut_model()

    def _taken_up(self) -> None:
        self.log = self.world.log()
        self.cleaner = cleaner_of(self.world)

    # --- what must hold ------------------------------------------------------------------------

    @rule()
    def read(self) -> None:
        found = rows(self.log)
        offsets = [offset for offset, _, _ in found]
        assert offsets == sorted(set(offsets))
        for offset, key, value in found:
            assert self.records[offset] == (key, value)
        there = set(offsets)
        for offset in self.records:
            if offset >= self.log.start_offset and offset not in there:
                assert offset in self.may_go, offset

    @rule(data=st.data())
    def read_from_anywhere(self, data: st.DataObject) -> None:
        start = data.draw(st.integers(self.log.start_offset, self.log.end_offset))
        wanted = [row for row in rows(self.log) if row[0] >= start]
        self.log.segments.forget_ends()
        assert [row for row in rows_from(self.log, start) if row[0] >= start] == wanted

    @invariant()
    def segments_make_sense(self) -> None:
        bases = [segment.base_offset for segment in self.log.segments]
        assert bases == sorted(set(bases))
        assert self.log.flushed_offset <= self.log.end_offset
        assert self.log.high_watermark <= self.log.end_offset


def rows_from(log: Log, start: int) -> list[tuple[int, bytes | None, bytes | None]]:
    """Data records from the batch that holds `start` on."""
    return [
        (one.offset, one.key, one.value)
        for header, data in batches_of(log, start)
        if not header.attributes & wire.CONTROL
        for one in wire.records(data)
    ]


CompactedLogModel.TestCase.settings = model_settings(12)
TestCompactedLogModel = CompactedLogModel.TestCase
