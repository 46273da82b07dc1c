"""Compaction's kernel, its twin in Python and a dictionary agree; so do whole compactions."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.kernels.compact_records import KernelRecords
from headrace.log.compaction.clean_segments import compact
from headrace.log.compaction.job import Cleaned, Done, Event, read, write
from headrace.log.compaction.records import Filtered, PlainRecords, Records, Span
from headrace.log.log import Log
from headrace.record import batch as wire
from headrace.record.batch_layout import HEADER_BYTES
from headrace.record.compression import CorruptBatch
from headrace.testing.disk import SimDisk
from tests.support.log.compaction import (
    COMPACTED,
    Row,
    batches_of,
    cleaner_of,
    compact_now,
    job_of,
    newest,
    put,
    rows,
)
from tests.support.log.log import NOW_MS, World, append_marker

pytest.importorskip("numba")

key_bytes = st.one_of(
    st.none(), st.binary(max_size=2), st.binary(min_size=7, max_size=17), st.just(b"long" * 20)
)
value_bytes = st.one_of(st.none(), st.binary(max_size=40))
pairs = st.lists(st.tuples(key_bytes, value_bytes), min_size=1, max_size=6)
times = st.integers(-(2**40), 2**41)


@st.composite
def spans(draw: st.DrawFn) -> Span:
    """A batch as it is or as an earlier compaction left it; at times with a byte changed."""
    base = draw(st.integers(0, 50))
    offset = base
    made = []
    for key, value in draw(pairs):
        made.append(wire.Record(offset, draw(times), key, value, ((("h", b"1"),))))
        offset += draw(st.integers(1, 3))
    data = bytearray(wire.build(made, base_offset=base, keep_offsets=True))
    header = wire.parse_header(data)
    payload = data[HEADER_BYTES:]
    if draw(st.booleans()) and draw(st.booleans()):
        payload[draw(st.integers(0, len(payload) - 1))] ^= draw(st.integers(1, 255))
    if draw(st.integers(0, 9)) == 9:
        del payload[draw(st.integers(0, len(payload))) :]
    return Span(bytes(payload), header.record_count, base, header.last_offset_delta)


def outcome(engine: Records, fed: list[Span], start: int, latest: int, keep: bool) -> list[object]:
    """All that `engine` says: of the first spans noted, of all of them filtered."""
    found: list[object] = []
    for span in fed:
        try:
            noted = engine.index(span, start)
        except CorruptBatch as error:
            found.append(("index", error.message))
            continue
        found.append(noted)
    for span in fed:
        try:
            kept = engine.filter(span, latest, keep)
        except CorruptBatch as error:
            found.append(("filter", error.message))
            continue
        found.append(comparable(span, kept))
        if kept.kept:
            payload = span.payload if kept.kept == span.record_count else kept.payload
            found.append(engine.rebase(payload, kept.kept, -3 * NOW_MS))
    return found


def comparable(span: Span, kept: Filtered) -> Filtered:
    """Where all stays, the payload handed out is not looked at."""
    whole = kept.kept == span.record_count
    newest_delta = kept.newest_delta if kept.kept else 0
    return kept._replace(payload=b"" if whole else bytes(kept.payload), newest_delta=newest_delta)


@given(
    st.lists(spans(), min_size=1, max_size=4),
    st.integers(0, 20), st.integers(-1, 70), st.booleans(), st.integers(1, 12),
)  # fmt: skip
@settings(max_examples=300)
def test_kernel_and_twin_say_the_same(
    fed: list[Span], start: int, latest: int, keep: bool, keys: int
) -> None:
    plain = outcome(PlainRecords(keys), fed, start, latest, keep)
    compiled = outcome(KernelRecords(keys, keys), fed, start, latest, keep)
    assert compiled == plain


def test_a_batch_larger_than_the_kernels_room_is_compacted_as_the_twin_does() -> None:
    records = [wire.new_record(b"v" * 900_000, b"k%d" % at, NOW_MS) for at in (0, 1, 0)]
    span = Span(wire.build(records)[HEADER_BYTES:], 3, 0, 2)
    engines = PlainRecords(9), KernelRecords(9, 9)
    for engine in engines:
        engine.index(span, 0)
    kept = [engine.filter(span, 2, True) for engine in engines]
    assert comparable(span, kept[0]) == comparable(span, kept[1])
    assert kept[1].kept == 2
    moved = {engine.rebase(kept[0].payload, 2, -5) for engine in engines}
    assert len(moved) == 1


@given(st.lists(pairs, min_size=1, max_size=5))
@settings(max_examples=100)
def test_the_map_is_a_dictionary_of_last_offsets(
    batches: list[list[tuple[bytes | None, bytes | None]]],
) -> None:
    engine = KernelRecords(1000, 1000)
    model: dict[bytes, int] = {}
    fed = []
    base = 0
    for batch in batches:
        records = [wire.new_record(value, key, 0) for key, value in batch]
        data = wire.build(records)
        fed.append(Span(data[HEADER_BYTES:], len(batch), base, len(batch) - 1))
        model.update({key: base + at for at, (key, _) in enumerate(batch) if key is not None})
        base += len(batch)
    for span in fed:
        assert engine.index(span, 0) == (False, span.base_offset + span.last_delta)
    for span, batch in zip(fed, batches, strict=True):
        kept = engine.filter(span, base, True)
        wanted = [
            at
            for at, (key, _) in enumerate(batch)
            if key is not None and model[key] == span.base_offset + at
        ]
        assert kept.kept == len(wanted)
        assert kept.keyless == sum(key is None for key, _ in batch)


actions = st.lists(
    st.one_of(
        st.tuples(st.just("plain"), pairs, st.sampled_from(list(wire.Codec))),
        st.tuples(st.just("txn"), pairs, st.sampled_from([1, 2])),
        st.tuples(st.just("end"), st.booleans(), st.sampled_from([1, 2])),
        st.tuples(st.just("compact"), st.just(0), st.just(0)),
        st.tuples(st.just("wait"), st.just(0), st.just(0)),
        st.tuples(st.just("restart"), st.booleans(), st.just(0)),
    ),
    min_size=4,
    max_size=25,
)


class Model:
    """What a reader of committed data must find: live records by key."""

    def __init__(self) -> None:
        self.undecided: dict[int, list[Row]] = {}
        self.rows: list[Row] = []

    def live(self) -> dict[bytes, tuple[int, bytes]]:
        found = newest(sorted(self.rows))
        return {key: (at, value) for key, (at, value) in found.items() if value is not None}


def act(world: World, log: Log, model: Model, sequences: dict[int, int], action: Any) -> None:
    kind, what, how = action
    if kind == "plain":
        base = put(log, *what, codec=how).base_offset
        model.rows += [(base + at, key, value) for at, (key, value) in enumerate(what)]
    elif kind == "txn":
        producer = (how, 0, sequences.get(how, 0))
        base = put(log, *what, producer=producer, transactional=True).base_offset
        sequences[how] = sequences.get(how, 0) + len(what)
        found = [(base + at, key, value) for at, (key, value) in enumerate(what)]
        model.undecided.setdefault(how, []).extend(found)
    elif kind == "end" and how in model.undecided:
        append_marker(log, how, commit=what)
        found = model.undecided.pop(how)
        model.rows += found if what else []


@given(actions)
@settings(max_examples=40)
def test_a_compacted_log_holds_what_a_dictionary_would(
    todo: list[Any],
) -> None:
    world = World(config=COMPACTED)
    cleaner = cleaner_of(world)
    model, sequences = Model(), dict[int, int]()
    for action in todo:
        log = world.log()
        act(world, log, model, sequences, action)
        if action[0] == "compact":
            world.flush(log)
            compact_now(world, cleaner)
        elif action[0] == "wait":
            world.clock.advance(3)
        elif action[0] == "restart":
            world.flush(log)
            world.directory.checkpoint()
            world.settle()
            cleaner.close()
            world.restart(clean=bool(action[1]))
            log = world.log()
            log.high_watermark = log.flushed_offset
            cleaner = cleaner_of(world)
        assert not cleaner.uncleanable
    log = world.log()
    found = newest([row for row in rows(log, committed=True) if not undecided(model, row)])
    live = {key: at for key, at in found.items() if at[1] is not None}
    assert live == model.live()
    for producer_id, sequence in sequences.items():
        known = {one.producer_id: one.last_sequence for one in log.producers.kept.entries()}
        assert known[producer_id] == sequence - 1


def undecided(model: Model, row: Row) -> bool:
    return any(row in found for found in model.undecided.values())


@given(actions)
@settings(max_examples=25)
def test_compactions_by_kernel_and_by_twin_are_equal_byte_for_byte(
    todo: list[Any],
) -> None:
    world = World(config=COMPACTED)
    log, model = world.log(), Model()
    sequences: dict[int, int] = {}
    for action in todo:
        if action[0] in {"plain", "txn", "end"}:
            act(world, log, model, sequences, action)
    for producer_id in list(model.undecided):
        append_marker(log, producer_id, commit=True)
    world.flush(log)
    if len(log.segments) < 2:
        return
    job = read(write(job_of(log)))
    assert job == job_of(log)
    made = []
    for engine in (PlainRecords(1000), KernelRecords(1000, 1000)):
        events = [
            one for one in compact(job_of(log), world.disk, engine) if not isinstance(one, int)
        ]
        assert isinstance(events[-1], Done)
        assert [read(write(event)) for event in events] == events
        made.append((events, contents(world.disk, events)))
    assert made[0] == made[1]


def contents(disk: SimDisk, events: list[Event]) -> list[bytes]:
    found = []
    for event in events:
        if isinstance(event, Cleaned):
            for suffix in event.files:
                file = disk.open(f"/data/t-0/{event.base_offset:020d}{suffix}.cleaned")
                found.append(file.read(0, file.size()))
    return found


def test_offsets_in_a_compacted_log_only_grow() -> None:
    world = World(config=COMPACTED)
    log = world.log()
    for at in range(40):
        put(log, (b"%d" % (at % 6), b"%d" % at * 10), (b"x", None))
    world.flush(log)
    compact_now(world, cleaner_of(world))
    last = -1
    for header, _ in batches_of(log):
        assert header.base_offset > last
        last = header.base_offset + header.last_offset_delta
