"""Random lives of a partition's producers, judged by the log they leave.

Whatever is sent (retries, gaps, other epochs, transactions), whatever time and restarts do: the
verdict on each batch is what the batches in the log say, nothing is in it twice or out of order,
and readers of committed data see nothing that is undecided.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headrace.log.producers.kept_states import BATCHES_KEPT
from headrace.log.producers.producer_states import Duplicate, ProducerStates
from headrace.log.segment.transaction_index import AbortedTransaction
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import Offset
from headrace.record.batch import TRANSACTIONAL, BatchHeader, ControlMarker, ControlType
from tests.support.examples import examples

PRODUCERS = st.sampled_from([1, 2, 3])
MASK = (1 << 31) - 1
EXPIRATION_MS = 1000


class Row(NamedTuple):
    """What lies in the log: a data batch, or a marker (first sequence -1)."""

    producer: int
    epoch: int
    first: int
    size: int
    transactional: bool
    offset: int
    timestamp: int
    coordinator: int = -1
    commit: bool = False

    @property
    def last(self) -> int:
        return (self.first + self.size - 1) & MASK


@dataclass
class Seen:
    """What of the log is still known of a producer."""

    since: int = 0
    """Rows before this one are forgotten altogether."""
    batches_since: int = 0
    """And batches before this one, by a snapshot."""
    heard_ms: int = -1


def header_of(row: Row) -> BatchHeader:
    attributes = TRANSACTIONAL if row.transactional else 0
    return BatchHeader(
        -1, 0, -1, 2, 0, attributes, row.size - 1, row.timestamp, row.timestamp,
        row.producer, row.epoch, row.first, row.size,
    )  # fmt: skip


def outcome(act: Callable[[], object]) -> object:
    """What it returns, or the error's code.

    Of a repeated batch where it lies: a snapshot has but the producer's last timestamp.
    """
    try:
        found = act()
        return found[:2] if isinstance(found, Duplicate) else found
    except ApiError as refused:
        return refused.code


class ProducerStatesMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.states = ProducerStates()
        self.log: list[Row] = []
        self.seen = {producer: Seen() for producer in (1, 2, 3)}
        self.now_ms = 1_000_000
        self.end = 0
        self.high_watermark = 0

    # What the log says

    def rows(self, producer: int) -> list[Row]:
        rows = self.log[self.seen[producer].since :]
        return [row for row in rows if row.producer == producer]

    def batches(self, producer: int) -> list[Row]:
        """Those a retry is known by."""
        rows = self.rows(producer)
        since = self.seen[producer].batches_since
        known = [row for row in self.log[since:] if row in rows and row.first >= 0]
        return [row for row in known if row.epoch == rows[-1].epoch][-BATCHES_KEPT:]

    def open_since(self, producer: int) -> int | None:
        first = None
        for row in self.rows(producer):
            if row.first < 0:
                first = None
            elif row.transactional and first is None:
                first = row.offset
        return first

    def verdict(self, row: Row) -> ErrorCode | tuple[int, int] | None:
        """What is to become of a client's batch; offsets of the one it repeats."""
        rows = self.rows(row.producer)
        if not rows:
            return None
        outside = self.open_since(row.producer) is not None and not row.transactional
        if row.epoch < rows[-1].epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if row.epoch > rows[-1].epoch:
            expected = 0
        else:
            kept = self.batches(row.producer)
            for one in kept:
                if (one.first, one.last) == (row.first, row.last):
                    return one.offset, one.offset + one.size - 1
            expected = (kept[-1].last + 1) & MASK if kept else 0
        if row.first != expected:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        return ErrorCode.INVALID_TXN_STATE if outside else None

    # What clients and coordinators do

    def batch(self, producer: int, epoch: int, first: int, count: int, transactional: bool) -> Row:
        return Row(producer, epoch, first & MASK, count, transactional, self.end, self.now_ms)

    def next_of(self, producer: int) -> tuple[int, int]:
        """Epoch and sequence an honest client goes on with."""
        rows = self.rows(producer)
        if not rows:
            return 0, 0
        kept = self.batches(producer)
        return rows[-1].epoch, kept[-1].last + 1 if kept else 0

    def write(self, row: Row) -> None:
        self.states.update(header_of(row), row.offset, self.now_ms)
        self.log.append(row)
        self.seen[row.producer].heard_ms = self.now_ms
        self.end += row.size

    def send(self, row: Row) -> None:
        found = outcome(lambda: self.states.check(header_of(row), self.now_ms))
        assert found == self.verdict(row)
        if found is None:
            self.write(row)

    @rule(producer=PRODUCERS, count=st.integers(1, 3), transactional=st.booleans())
    def goes_on(self, producer: int, count: int, transactional: bool) -> None:
        epoch, sequence = self.next_of(producer)
        self.send(self.batch(producer, epoch, sequence, count, transactional))

    @rule(producer=PRODUCERS, back=st.integers(1, 7))
    def retries(self, producer: int, back: int) -> None:
        written = [row for row in self.log if row.producer == producer and row.first >= 0]
        if len(written) >= back:
            old = written[-back]
            self.send(old._replace(offset=self.end, timestamp=self.now_ms))

    @rule(
        producer=PRODUCERS,
        epoch=st.sampled_from([-1, 0, 0, 1]),
        sequence=st.sampled_from([-2, -1, 0, 1, 5, None]),
        count=st.integers(1, 3),
        transactional=st.booleans(),
    )
    def errs(
        self, producer: int, epoch: int, sequence: int | None, count: int, transactional: bool
    ) -> None:
        """Another epoch, a gap, an overlap, or a new beginning (None)."""
        present, expected = self.next_of(producer)
        first = 0 if sequence is None else expected + sequence
        self.send(self.batch(producer, max(present + epoch, 0), first, count, transactional))

    @rule(producer=PRODUCERS, sequence=st.sampled_from([MASK - 2, MASK, 77]))
    def begins_anywhere(self, producer: int, sequence: int) -> None:
        """Nobody who is not known is asked where he left off; so sequences get to wrap around."""
        self.send(self.batch(producer, self.next_of(producer)[0], sequence, 3, False))

    @rule(
        producer=PRODUCERS,
        counts=st.lists(st.integers(1, 3), min_size=1, max_size=4),
        breaks=st.sampled_from(["", "", "gap", "epoch", "producer"]),
        transactional=st.booleans(),
    )
    def sends_a_run(
        self, producer: int, counts: list[int], breaks: str, transactional: bool
    ) -> None:
        """What is said to be new of several batches at once, surely is."""
        epoch, sequence = self.next_of(producer)
        run: list[Row] = []
        for at, count in enumerate(counts):
            odd = breaks if at == len(counts) - 1 else ""
            row = self.batch(
                producer % 3 + 1 if odd == "producer" else producer,
                epoch + (odd == "epoch"),
                sequence + (odd == "gap"),
                count,
                transactional,
            )
            run.append(row)
            sequence += count
        new = self.states.new_of([header_of(row) for row in run], self.now_ms)
        assert 0 <= new <= len(run)
        for row in run[:new]:
            assert self.verdict(row) is None
            self.write(row._replace(offset=self.end))

    @rule(
        producer=PRODUCERS,
        commit=st.booleans(),
        epoch=st.sampled_from([-1, 0, 0, 1]),
        coordinator=st.sampled_from([-1, 0, 0, 1]),
    )
    def ends(self, producer: int, commit: bool, epoch: int, coordinator: int) -> None:
        rows = self.rows(producer)
        known = max((row.coordinator for row in rows), default=-1)
        row = Row(
            producer, max(self.next_of(producer)[0] + epoch, 0), -1, 1, False, self.end,
            self.now_ms, max(known + coordinator, 0), commit,
        )  # fmt: skip
        expected = None
        if rows and row.epoch < rows[-1].epoch:
            expected = ErrorCode.INVALID_PRODUCER_EPOCH
        elif row.coordinator < known:
            expected = ErrorCode.TRANSACTION_COORDINATOR_FENCED
        found = outcome(lambda: self.states.check_epoch(producer, row.epoch, row.coordinator))
        assert found == expected
        if expected is not None:
            return
        first = self.open_since(producer)
        kind = ControlType.COMMIT if commit else ControlType.ABORT
        told = ControlMarker(kind, row.coordinator)
        entry = self.states.aborted_by(header_of(row), told, Offset(row.offset))
        self.states.update_marker(header_of(row), told, Offset(row.offset))
        self.log.append(row)
        self.end += 1
        if first is None or commit:
            assert entry is None
        else:
            still_open = [one for one in map(self.open_since, self.seen) if one is not None]
            stable = min(still_open, default=row.offset + 1)
            assert entry == AbortedTransaction(
                producer, Offset(first), Offset(row.offset), Offset(stable)
            )

    # What the world does

    @rule(share=st.floats(0, 1))
    def flushes(self, share: float) -> None:
        self.high_watermark += int((self.end - self.high_watermark) * share)

    @rule(milliseconds=st.sampled_from([1, EXPIRATION_MS - 1, EXPIRATION_MS]))
    def time_passes(self, milliseconds: int) -> None:
        self.now_ms += milliseconds
        silent = []
        for producer, seen in self.seen.items():
            rows = self.rows(producer)
            if not rows or self.open_since(producer) is not None:
                continue
            if self.now_ms - max(rows[-1].timestamp, seen.heard_ms) >= EXPIRATION_MS:
                silent.append(producer)
        assert self.states.expire(self.now_ms, EXPIRATION_MS) == len(silent)
        for producer in silent:
            self.seen[producer] = Seen(len(self.log), len(self.log))

    @rule()
    def restarts(self) -> None:
        """Its snapshot is read: of each producer's batches the last one is known."""
        before = self.states.kept.entries()
        again = ProducerStates()
        heard = {row.offset + row.size - 1: row.timestamp for row in self.log if row.first >= 0}
        again.kept.load(self.states.kept.snapshot(), "x.snapshot", lambda offset: heard[offset])
        assert again.kept.entries() == before
        for producer, seen in self.seen.items():
            kept = self.batches(producer)
            seen.heard_ms = kept[-1].timestamp if kept else -1
            seen.batches_since = self.log.index(kept[-1]) if kept else len(self.log)
        self.states = again
        self.high_watermark = self.end

    # What must hold

    @invariant()
    def nothing_is_in_the_log_twice_or_out_of_order(self) -> None:
        for producer in self.seen:
            last: Row | None = None
            for row in self.rows(producer):
                if last is not None:
                    assert row.epoch >= last.epoch
                if row.first < 0:
                    continue
                if last is not None and last.epoch == row.epoch:
                    assert row.first == (last.last + 1) & MASK
                last = row

    @invariant()
    def readers_of_committed_data_see_nothing_undecided(self) -> None:
        undecided = [self.high_watermark]
        for producer in self.seen:
            first = None
            for row in self.log:
                if row.producer != producer:
                    continue
                if row.first < 0:
                    if first is not None and row.offset >= self.high_watermark:
                        undecided.append(first)
                    first = None
                elif row.transactional and first is None:
                    first = row.offset
            if first is not None:
                undecided.append(first)
        assert self.states.last_stable_offset(Offset(self.high_watermark)) == min(undecided)

    @invariant()
    def it_says_who_has_a_transaction_open(self) -> None:
        for producer in self.seen:
            first = self.open_since(producer)
            assert self.states.open_transaction(producer) == first
            rows = self.rows(producer)
            assert (producer in self.states) == bool(rows)
            if rows:
                assert self.states.is_open(producer, rows[-1].epoch) == (first is not None)


ProducerStatesMachine.TestCase.settings = settings(
    max_examples=examples(80), stateful_step_count=40
)
TestProducerStates = ProducerStatesMachine.TestCase
