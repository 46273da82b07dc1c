"""A partition against a model, under any order of appends, retries, flushes, failures of nothing.

G1, G5, G7: what was acknowledged was flushed before; a retry is written once; the high watermark
never goes back and never passes what is flushed; readers see whole prefixes.
"""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headrace.broker.partition import Partition
from headrace.config.log_config import LogConfig
from headrace.log.directory.log_directory import LogDirectory
from headrace.log.log import NeedsDisk
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import LeaderEpoch, Offset, TopicPartition
from headrace.record.batch import Record, build, iterate, next_offset, parse_header
from headrace.testing.clock import SimClock, SimRandom
from headrace.testing.disk import SimDisk
from tests.support.examples import examples

NOW = 1_780_000_000_000
CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=100, segment_index_bytes=1024)
PRODUCERS = (1, 2)


class PartitionModel(RuleBasedStateMachine):
    """Batches of one to three records, idempotent or not."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = SimClock(NOW)
        self.disk = SimDisk(self.clock.wall_ms)
        self.epoch = 0
        self.log: list[int] = []
        """Length of every batch written, in order."""
        self.sequence = dict.fromkeys(PRODUCERS, 0)
        self.sent: dict[int, list[tuple[int, int, int]]] = {one: [] for one in PRODUCERS}
        """Per producer: sequence, records and first offset of its batches since the start."""
        self.waiting: list[int] = []
        self.acknowledged: list[int] = []
        self.highest = 0
        self.woken = 0
        self.open()

    def open(self) -> None:
        self.directory = LogDirectory.open(
            self.disk, self.clock, SimRandom(), "/data", broker_id=0, cluster_id="c"
        )
        self.directory.load_blocking(lambda _: CONFIG)
        key = TopicPartition("t", 0)
        log = self.directory.logs.get(key)
        if log is None:
            log = self.directory.create_log(key, bytes(range(16)), CONFIG)
        self.partition = Partition(log, flusher=self.directory.flusher)
        self.partition.role.lead(LeaderEpoch(self.epoch))
        self.partition.watch(self.wake)

    def wake(self) -> None:
        self.woken = self.partition.high_watermark

    @property
    def end(self) -> int:
        return sum(self.log)

    def append(self, count: int, **producer: Any) -> Any:
        records = [Record(0, NOW, None, b"v", ())] * count
        view = memoryview(bytearray(build(records, **producer)))
        return self.partition.append(view, parse_header(view), now_ms=NOW)

    def wait(self, commit_offset: int) -> None:
        self.waiting.append(commit_offset)

        def told(error: ApiError | None) -> None:
            assert error is None
            assert self.waiting[len(self.acknowledged)] == commit_offset, "out of order"
            assert commit_offset <= self.partition.log.flushed_offset, "acknowledged too early"
            self.acknowledged.append(commit_offset)

        self.partition.when_committed(Offset(commit_offset), told)

    @rule(count=st.integers(1, 3))
    def plain(self, count: int) -> None:
        appended = self.append(count)
        assert (appended.base_offset, appended.duplicate) == (self.end, False)
        self.log.append(count)
        self.wait(appended.commit_offset)

    @rule(producer=st.sampled_from(PRODUCERS), count=st.integers(1, 3))
    def idempotent(self, producer: int, count: int) -> None:
        sequence = self.sequence[producer]
        appended = self.append(
            count, producer_id=producer, producer_epoch=0, base_sequence=sequence
        )
        assert (appended.base_offset, appended.duplicate) == (self.end, False)
        self.sent[producer].append((sequence, count, self.end))
        self.log.append(count)
        self.sequence[producer] = sequence + count
        self.wait(appended.commit_offset)

    @rule(producer=st.sampled_from(PRODUCERS), back=st.integers(1, 5))
    def retry(self, producer: int, back: int) -> None:
        if len(self.sent[producer]) < back:
            return
        sequence, count, base = self.sent[producer][-back]
        appended = self.append(
            count, producer_id=producer, producer_epoch=0, base_sequence=sequence
        )
        assert (appended.base_offset, appended.duplicate) == (base, True)
        self.wait(appended.commit_offset)

    @rule(producer=st.sampled_from(PRODUCERS), ahead=st.integers(1, 9))
    def gap(self, producer: int, ahead: int) -> None:
        if not self.sent[producer]:
            return
        sequence = self.sequence[producer] + ahead
        with pytest.raises(ApiError) as caught:
            self.append(1, producer_id=producer, producer_epoch=0, base_sequence=sequence)
        assert caught.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    @rule()
    def end_turn(self) -> None:
        self.clock.turn()

    @rule()
    def flush(self) -> None:
        self.disk.settle(1)

    @rule(offset=st.integers(0, 60), max_bytes=st.integers(1, 500))
    def read(self, offset: int, max_bytes: int) -> None:
        if offset > self.partition.log.end_offset:
            return
        found = self.partition.read(Offset(offset), max_bytes)
        if isinstance(found, NeedsDisk):
            below = self.partition.readable_end(False)
            found = self.partition.log.read_from_disk(Offset(offset), max_bytes, below=below)
        batches = [header for _, header in iterate(found.data)]
        if offset >= self.partition.high_watermark:
            assert batches == []
            return
        assert batches
        assert batches[0].base_offset <= offset < next_offset(batches[0])
        for one, following in pairwise(batches):
            assert following.base_offset == next_offset(one)
        assert next_offset(batches[-1]) <= self.partition.high_watermark

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        """A stop or a kill: the page cache lives on, so nothing that was written is lost."""
        self.directory.close(clean)
        self.disk.settle()
        self.clock.turn()
        del self.waiting[len(self.acknowledged) :]
        self.epoch += 1
        self.highest = 0
        if clean:
            # A snapshot holds the last batch of each producer only.
            self.sent = {one: batches[-1:] for one, batches in self.sent.items()}
        self.open()
        assert self.partition.log.end_offset == self.end

    @invariant()
    def the_high_watermark_keeps_its_promises(self) -> None:
        mark = self.partition.high_watermark
        assert self.highest <= mark <= self.partition.log.flushed_offset
        assert self.partition.log.end_offset == self.end
        assert all(offset <= mark for offset in self.acknowledged)
        self.highest = mark

    @invariant()
    def nobody_waits_who_need_not(self) -> None:
        waiting = self.waiting[len(self.acknowledged) :]
        assert not waiting or waiting[0] > self.partition.high_watermark

    def teardown(self) -> None:
        self.directory.close(clean=False)


PartitionModel.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=40)
TestPartitionAgainstModel = PartitionModel.TestCase
