"""A log under any mix of operations, restarts and power cuts stays equal to a dict beside it.

The same machine runs on the simulated disk, where the power can be cut, and on the real one.
"""

import os
import shutil
import tempfile
from dataclasses import dataclass, replace
from itertools import islice

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headrace.config.log_config import LogConfig
from headrace.log.producers.producer_states import Duplicate
from headrace.log.retention import apply_retention
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import Offset
from headrace.record import batch as wire
from headrace.testing.disk_crash import crash_states
from tests.support.examples import examples
from tests.support.log.log import (
    NOW_MS,
    World,
    append,
    append_marker,
    batch_of,
    truncate_to,
    values,
)
from tests.support.log.stepped_disk import SteppedDisk

CONFIG = LogConfig(
    segment_bytes=700,
    index_interval_bytes=180,
    segment_index_bytes=240,
    segment_ms=2_000,
    retention_ms=-1,
    file_delete_delay_ms=100,
)


PRODUCERS = (1, 2)
TRANSACTIONAL = (8, 9)


@dataclass
class Batch:
    base: int
    last: int
    producer: int
    sequence: int
    ends: bool | None = None
    """Of a marker: whether it commits."""


class LogModel(RuleBasedStateMachine):
    """Offsets to (timestamp, value), and what each producer sent."""

    def __init__(self) -> None:
        super().__init__()
        self.world = self.new_world()
        self.log = self.world.log()
        self.records: dict[int, tuple[int, bytes]] = {}
        self.batches: list[Batch] = []
        self.markers: dict[int, int] = {}
        """Offset to timestamp."""
        self.sequences = dict.fromkeys(PRODUCERS + TRANSACTIONAL, 0)
        self.epoch = 0
        self.drawn = 0
        self.end = 0

    def new_world(self) -> World:
        return World(config=CONFIG)

    def teardown(self) -> None:
        self.world.close()
        assert self.world.disk.open_files <= 0 or not self.world.disk.busy

    # --- what is done --------------------------------------------------------------------------

    @rule(
        sizes=st.lists(st.integers(0, 120), min_size=1, max_size=4),
        ahead=st.integers(-500, 1500),
        producer=st.sampled_from([0, *PRODUCERS, *TRANSACTIONAL]),
        codec=st.sampled_from(wire.Codec),
    )
    def append(self, sizes: list[int], ahead: int, producer: int, codec: wire.Codec) -> None:
        content = [bytes([self.drawn % 251]) * size for size in sizes]
        self.drawn += 1
        who = (producer, 0, self.sequences[producer]) if producer else None
        timestamp = NOW_MS + ahead
        done = append(
            self.log,
            *content,
            timestamp=timestamp,
            epoch=self.epoch,
            producer=who,
            transactional=producer in TRANSACTIONAL,
            codec=codec,
        )
        assert done.base_offset == self.end
        for at, value in enumerate(content):
            self.records[done.base_offset + at] = (timestamp, value)
        sequence = self.sequences[producer] if producer else -1
        self.batches.append(Batch(done.base_offset, done.last_offset, producer, sequence))
        self.end = done.last_offset + 1
        if producer:
            self.sequences[producer] += len(content)

    @rule(producer=st.sampled_from(TRANSACTIONAL), commit=st.booleans())
    def end_transaction(self, producer: int, commit: bool) -> None:
        done = append_marker(self.log, producer, commit=commit, leader_epoch=self.epoch)
        assert done.base_offset == self.end
        self.batches.append(Batch(self.end, self.end, producer, -1, commit))
        self.markers[self.end] = NOW_MS
        self.end += 1

    @rule(milliseconds=st.integers(0, 5000), size=st.integers(600, 1500))
    def change_settings(self, milliseconds: int, size: int) -> None:
        self.log.config = replace(CONFIG, segment_ms=1000 + milliseconds, segment_bytes=size)

    @rule()
    def flush(self) -> None:
        self.world.flush(self.log)
        assert self.log.flushed_offset == self.log.end_offset

    @rule()
    def roll(self) -> None:
        if self.log.segments[-1].size:
            self.log.roll()

    @rule()
    def new_leader(self) -> None:
        self.epoch += 1

    @rule()
    def checkpoint(self) -> None:
        self.world.directory.checkpoint()
        self.world.settle()

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        before = data.draw(st.integers(self.log.start_offset, self.log.high_watermark))
        assert self.log.delete_records(Offset(before)) == before
        self.world.settle()

    @rule(keep=st.integers(0, 2500))
    def retain(self, keep: int) -> None:
        self.log.config = LogConfig(
            segment_bytes=700, retention_bytes=keep, retention_ms=-1, file_delete_delay_ms=100
        )
        apply_retention(self.log, NOW_MS)
        self.log.config = CONFIG
        assert self.log.start_offset <= self.log.high_watermark
        self.world.clock.advance(0.2)
        self.world.settle()

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        target = data.draw(st.integers(self.log.start_offset, self.log.end_offset))
        truncate_to(self.log, Offset(target))
        assert self.log.end_offset <= target
        self.cut_model(target)

    # --- restarts ------------------------------------------------------------------------------

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        """A clean stop, or a kill: the page cache survives both."""
        self.world.restart(clean=clean)
        self.log = self.world.log()
        assert not self.world.directory.quarantined

    @rule(sample=st.integers(0, 4), seed=st.integers(0, 1000))
    def power_cut(self, sample: int, seed: int) -> None:
        flushed, starts = self.log.flushed_offset, self.log.start_offset
        disk = self.world.disk
        states = crash_states(disk, len(disk.ops), seed=seed, samples=3)
        left = next(islice(states, sample, None))
        self.world.close()
        self.world = World(left, config=CONFIG)
        assert not self.world.directory.quarantined
        self.log = self.world.log()
        assert self.log.end_offset >= flushed
        assert self.log.start_offset <= starts
        self.cut_model(self.log.end_offset)
        for offset in range(self.log.start_offset, starts):
            # Deleted, but the deletion was not durable: what is back is what was there.
            assert offset in self.records or offset in self.markers
        if self.log.end_offset == 0:
            self.records.clear()

    def cut_model(self, end: int) -> None:
        # A batch that holds the cut goes as a whole.
        self.batches = [one for one in self.batches if one.last < self.log.end_offset]
        self.records = {o: r for o, r in self.records.items() if o < self.log.end_offset}
        self.markers = {o: t for o, t in self.markers.items() if o < self.log.end_offset}
        for producer in self.sequences:
            mine = [one for one in self.batches if one.producer == producer and one.ends is None]
            self.sequences[producer] = (
                mine[-1].sequence + mine[-1].last - mine[-1].base + 1 if mine else 0
            )
        assert self.log.end_offset <= end
        self.end = self.log.end_offset

    # --- what must hold ------------------------------------------------------------------------

    @invariant()
    def ends_where_the_model_ends(self) -> None:
        assert self.log.end_offset == self.end
        assert self.log.flushed_offset <= self.log.end_offset

    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        start = data.draw(st.integers(self.log.start_offset, self.log.end_offset))
        below = data.draw(st.integers(start, self.log.end_offset))
        wanted = {
            offset: value
            for offset, (_, value) in self.records.items()
            if start <= offset < self.whole_below(below)
        }
        assert values(self.log, start, below) == wanted

    def whole_below(self, below: int) -> int:
        """Batches come whole: one that reaches `below` does not come."""
        return max((one.last + 1 for one in self.batches if one.last < below), default=0)

    @rule(ahead=st.integers(-600, 1600))
    def search_by_time(self, ahead: int) -> None:
        target = NOW_MS + ahead
        wanted = min(
            (offset for offset, timestamp in self.times().items() if timestamp >= target),
            default=None,
        )
        found = self.log.offset_for_time(target)
        assert (found[1] if found else None) == wanted

    def times(self) -> dict[int, int]:
        """Of every offset that is there, markers included."""
        found = {offset: timestamp for offset, (timestamp, _) in self.records.items()}
        found |= self.markers
        return {offset: at for offset, at in found.items() if offset >= self.log.start_offset}

    @rule()
    def search_the_newest(self) -> None:
        times = self.times()
        newest = max(times.values(), default=None)
        wanted = min((offset for offset, at in times.items() if at == newest), default=None)
        found = self.log.max_timestamp_offset()
        assert (found[1] if found else None) == wanted

    @rule(data=st.data())
    def list_aborted(self, data: st.DataObject) -> None:
        began: dict[int, int] = {}
        aborted: list[tuple[int, int, int]] = []
        for one in self.batches:
            if one.producer in TRANSACTIONAL and one.ends is None:
                began.setdefault(one.producer, one.base)
            elif one.ends is not None:
                first = began.pop(one.producer, None)
                if one.ends is False and first is not None and one.base >= self.log.start_offset:
                    aborted.append((one.producer, first, one.base))
        found = self.log.aborted_transactions(self.log.start_offset, self.log.end_offset)
        assert [one[:3] for one in found] == aborted
        start = data.draw(st.integers(self.log.start_offset, self.log.end_offset))
        end = data.draw(st.integers(start, self.log.end_offset))
        within = self.log.aborted_transactions(Offset(start), Offset(end))
        overlapping = [one for one in aborted if one[2] >= start and one[1] < end]
        assert [one[:3] for one in within] == overlapping
        assert self.log.first_unstable_offset() == min(began.values(), default=None)

    @precondition(lambda self: self.batches)
    @rule(data=st.data())
    def repeat_a_batch(self, data: st.DataObject) -> None:
        producer = data.draw(st.sampled_from(PRODUCERS))
        mine = [one for one in self.batches if one.producer == producer]
        for one in mine[-5:]:
            if one.base >= self.log.segments[0].base_offset:
                assert self.answer(one) == (one.base, one.last)
        if mine:
            with pytest.raises(ApiError) as refused:
                self.answer(Batch(0, 0, producer, self.sequences[producer] + 3))
            assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def answer(self, one: Batch) -> tuple[int, int] | None:
        content = [b"again"] * (one.last - one.base + 1)
        header = wire.parse_header(batch_of(*content, producer=(one.producer, 0, one.sequence)))
        found = self.log.producers.check(header, NOW_MS)
        assert found is None or isinstance(found, Duplicate)
        return None if found is None else (found.base_offset, found.last_offset)

    @invariant()
    def files_make_sense(self) -> None:
        bases = [segment.base_offset for segment in self.log.segments]
        assert bases == sorted(set(bases))
        assert self.log.start_offset >= bases[0]
        epochs = self.log.epochs.entries
        assert epochs == sorted(epochs)


class LogOnTheRealDisk(LogModel):
    """Without power cuts; a kill leaves what the page cache holds."""

    def new_world(self) -> World:
        self.place = tempfile.mkdtemp(prefix="headrace-model-")
        return World(SteppedDisk(), config=CONFIG, path=f"{self.place}/log")  # type: ignore[arg-type]

    def teardown(self) -> None:
        self.world.close()
        shutil.rmtree(self.place)

    @precondition(lambda self: False)
    @rule()
    def power_cut(self) -> None:
        pass


def model_settings(count: int) -> settings:
    """The same examples each time; with HEADRACE_LONG (`make crash`) 20 times as many new ones."""
    long = bool(os.environ.get("HEADRACE_LONG"))
    return settings(
        max_examples=count * 20 if long else examples(count),
        derandomize=not long,
        stateful_step_count=60 if long else 40,
        suppress_health_check=list(HealthCheck),
    )


LogModel.TestCase.settings = model_settings(60)
TestLogModel = LogModel.TestCase
LogOnTheRealDisk.TestCase.settings = model_settings(25)
TestLogOnTheRealDisk = LogOnTheRealDisk.TestCase


def test_a_marker_that_a_power_cut_brings_back_is_expected() -> None:
    """The machine's own memory: markers are no records, and offsets nevertheless."""
    state = LogModel()
    state.end_transaction(producer=8, commit=False)
    state.flush()
    state.retain(keep=0)
    state.power_cut(sample=0, seed=0)
    state.ends_where_the_model_ends()
    state.teardown()


def test_a_truncation_into_a_batch_is_no_gap_that_a_power_cut_may_use() -> None:
    """A segment that a power cut emptied was believed to be a gap that compaction had left."""
    state = LogModel()
    state.append(sizes=[0, 0], ahead=0, producer=0, codec=wire.Codec.NONE)
    state.checkpoint()
    truncate_to(state.log, Offset(1))
    state.cut_model(1)
    state.end_transaction(producer=8, commit=False)
    state.roll()
    state.append(sizes=[0, 0], ahead=0, producer=0, codec=wire.Codec.NONE)
    truncate_to(state.log, Offset(2))
    state.cut_model(2)
    state.power_cut(sample=0, seed=0)
    state.search_by_time(ahead=0)
    state.teardown()
