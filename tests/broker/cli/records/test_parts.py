"""Parts of commands: what flags add to JSON lines, places in a topic, copies of index files."""

import gc
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.cli.records import produce as producing
from headrace.cli.records.consume_printer import DamagedBytes, Printer
from headrace.cli.records.sending import Sender
from headrace.client.calls.fetch import Fetched
from headrace.client.consumer.consumer import Chunk
from headrace.client.producer.producer import Producer
from headrace.client.sync import connect, run
from headrace.model.nouns import TopicPartition
from headrace.posix.file_copies import Copier
from headrace.record import batch as batches
from headrace.record import batch_layout as layout
from headrace.record.crc32c import crc32c
from headrace.record.record import Record
from headrace.terminal.failure import CommandError
from headrace.terminal.input_lines import LineParser
from headrace.terminal.offset_positions import Place, resolve_places
from headrace.terminal.record_formats import json_formatter, text_formatter
from headrace.testing import BrokerThread
from tests.support.cluster.hand_cluster import HandCluster

WHERE = TopicPartition("t", 0)


def test_a_key_and_headers_of_the_flags_go_before_those_of_a_json_line() -> None:
    parser = LineParser(key=b"flag", headers=[("a", b"1")], json=True)
    line = parser.parse(b'{"key":"line","value":"v","headers":[{"key":"b","value":"2"}]}', 1)
    assert (line.key, list(line.headers)) == (b"flag", [("a", b"1"), ("b", b"2")])


@pytest.mark.parametrize(("said", "read"), [("0", 0), ("-1", None), ("null", None), ("5", 5)])
def test_a_time_in_json_is_a_number_not_below_zero(said: str, read: int | None) -> None:
    line = LineParser(json=True).parse(f'{{"value":"v","timestamp":{said}}}'.encode(), 1)
    assert line.timestamp == read


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"foo":"a"}', "unknown field 'foo'; fields are headers, key, "),
        ('{"key":"k"}', 'no "value" field; write null for a null value'),
        ('{"a":1}', "unknown field 'a'; fields are "),
        ('{"value":"v","partition":"1"}', "partition: must be a number, 0 or more"),
        ('{"value":"v","partition":-2}', "partition: must be a number, 0 or more"),
        ('{"value":"v","timestamp":true}', "timestamp: must be a number, 0 or more"),
        ('{"value":"v","headers":{"a":"b"}}', "headers: must be a list of objects"),
        ('{"value":"v","headers":[{"name":"b"}]}', "headers: unknown field 'name'"),
        ('{"value":"v","value_base64":"eA=="}', "value and value_base64 cannot be combined"),
        ('{"value":"?","value_encoding":"base64"}', "value: invalid base64"),
        ('{"value":"x","value_encoding":"hex"}', "value_encoding: only base64 is supported"),
    ],
)
def test_a_json_line_that_would_not_be_stored_as_it_says_is_refused(line: str, why: str) -> None:
    with pytest.raises(CommandError) as refused:
        LineParser(json=True).parse(line.encode(), 7)
    assert str(refused.value).startswith(f"line 7: not a record in JSON: {why}")


def test_a_json_lines_partition_is_where_it_goes_and_the_flags_wins() -> None:
    class Taken(Producer):
        to: list[int | None]

        async def send(self, *_: Any, partition: int | None = None, **__: Any) -> TopicPartition:
            self.to.append(partition)
            return WHERE

    with connect("127.0.0.1:1") as client:
        for flag, expected in ((None, 5), (2, 2)):
            producer = Taken(client)
            producer.to = []
            sender = Sender(producer, "t", LineParser(json=True), flag)
            run(sender.send([b'{"value":"v","partition":5}']))
            assert producer.to == [expected]


def test_a_place_beyond_a_partition_is_its_start_or_its_end() -> None:
    with BrokerThread() as broker, connect(broker.bootstrap) as client:
        producer = Producer(client)

        async def send() -> None:
            for number in range(10):
                await producer.send("t", b"x", timestamp=1000 + number, partition=0)
            await producer.flush()

        def at(place: Place, current: int | None = None) -> int:
            known = None if current is None else {WHERE: current}
            return run(resolve_places(client, place, [WHERE], known))[WHERE]

        run(send())
        assert at(Place("offset", 4)) == 4
        assert at(Place("offset", 99)) == 10
        assert at(Place("before_end", 3)) == 7
        assert at(Place("before_end", 99)) == 0
        assert at(Place("before_end", 3), current=6) == 3
        assert at(Place("ahead", 3)) == 3
        assert at(Place("ahead", 3), current=6) == 9
        assert at(Place("time", 1004)) == 4
        assert at(Place("time", 5000)) == 10


def test_an_index_with_room_left_is_copied_to_the_byte_and_its_room_stays_a_hole(
    tmp_path: Path,
) -> None:
    source, target = tmp_path / "00.index", tmp_path / "copy.index"
    source.write_bytes(b"entries" + bytes(10 << 20))
    told: list[int] = []
    Copier("copy", told.append)(str(source), str(target), False)
    assert target.read_bytes() == source.read_bytes()
    assert sum(told) == source.stat().st_size
    assert target.stat().st_blocks * 512 < 1 << 20
    assert target.stat().st_mtime_ns == source.stat().st_mtime_ns


def test_how_far_it_is_is_shown_only_where_all_sizes_are_known(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sizes: list[int | None] = []

    @contextmanager
    def progress(whole: int | None) -> Iterator[Callable[[int], None]]:
        sizes.append(whole)
        yield lambda size: None

    async def nothing(*_: object) -> None:
        pass

    monkeypatch.setattr(producing, "_progress", progress)
    monkeypatch.setattr(producing, "Sender", lambda *_: SimpleNamespace(read=nothing))
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=None))
    (tmp_path / "a").write_bytes(b"x" * 7)
    (tmp_path / "b").write_bytes(b"x" * 20)
    one, other, standard = tmp_path / "a", tmp_path / "b", Path("-")
    producer: Any = SimpleNamespace(flush=nothing)
    for files in ((one,), (one, other), (one, standard), (standard,), ()):
        producing._produce_files(producer, "t", files, LineParser(), None)
    assert sizes == [7, 27, None, None, None]


def test_plain_lines_are_sent_whole_with_the_flags_key_and_headers() -> None:
    cluster = HandCluster()
    producer = Producer(cluster.client())
    sender = Sender(producer, "t", LineParser(key=b"k", headers=[("h", b"v")]), 2)
    run(sender.send([b"a\r", b"\r\r", b"b"]))
    run(producer.flush())
    (asked,) = cluster.asked
    assert list(asked.batches) == [2]
    sent = list(batches.records(asked.batches[2]))
    assert [record.value for record in sent] == [b"a", b"\r", b"b"]
    assert {(record.key, *record.headers) for record in sent} == {(b"k", ("h", b"v"))}
    assert abs(sent[0].timestamp / 1000 - time.time()) < 60
    assert sender.number == 3


def calls_of(work: Callable[[], object]) -> int:
    """How many of our functions in Python are called meanwhile."""
    called = 0

    def count(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal called
        called += event == "call" and "/headrace/" in frame.f_code.co_filename

    gc.collect()  # what earlier tests left behind is not to be ended, and counted, meanwhile
    gc.disable()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return called


RECORDS = 20_000


def test_lines_are_sent_and_printed_without_a_call_for_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = [b"%0100d" % number for number in range(RECORDS)]
    cluster = HandCluster()
    producer = Producer(cluster.client())
    sender = Sender(producer, "t", LineParser(), 0)
    run(sender.send(lines[:300]))  # what is made once
    producing_calls = calls_of(lambda: run(sender.send(lines)))
    assert producing_calls < RECORDS / 10
    run(producer.flush())
    data = memoryview(b"".join(data for asked in cluster.asked for data in asked.batches.values()))
    chunk = Chunk(WHERE, 0, Fetched("t", 0, 0, 0, 0, 0, (), data), read_committed=False)
    out = BytesIO()
    monkeypatch.setattr("sys.stdout", SimpleNamespace(buffer=out))
    for formatter in (text_formatter("%v\\n"), json_formatter()):
        out.seek(0)
        out.truncate()
        printer = Printer(formatter, None)
        assert calls_of(lambda printer=printer: printer.print(chunk)) < RECORDS / 10  # type: ignore[misc]
        assert out.getvalue().count(b"\n") == RECORDS + 300


def chunk_of(*records: Record, damaged: bool = False) -> Chunk:
    """Two batches, the first of two records."""
    first, data = batches.build(records[:2]), bytearray(batches.build(records[2:], base_offset=2))
    if damaged:  # not its checksum: what comes before the damage is to be seen
        data[-1] = 2
        crc = crc32c(memoryview(data)[layout.CRC_FROM :])
        data[layout.CRC_AT : layout.CRC_AT + 4] = crc.to_bytes(4, "big")
    fetched = Fetched("t", 0, 0, 0, 0, 0, (), memoryview(first + data))
    return Chunk(WHERE, 0, fetched, read_committed=False)


@pytest.mark.parametrize("text", ["%v\\n", "%o %v\\n"])
def test_printing_ends_with_the_record_asked_for_and_before_one_that_is_damaged(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    out = BytesIO()
    monkeypatch.setattr("sys.stdout", SimpleNamespace(buffer=out))
    records = [Record(0, 1, None, b"v%d" % number) for number in range(5)]
    for most, is_left, ends in ((2, 0, 2), (3, 0, 3), (5, 0, 5), (6, 1, 5), (None, None, 5)):
        out.seek(0)
        out.truncate()
        printer = Printer(text_formatter(text), most)
        assert printer.print(chunk_of(*records)) is (is_left != 0)
        assert (printer.left, printer.printed) == (is_left, {WHERE: ends})
        assert out.getvalue().count(b"\n") == ends
    out.seek(0)
    out.truncate()
    printer = Printer(text_formatter(text), 9)
    with pytest.raises(DamagedBytes) as damaged:
        printer.print(chunk_of(*records, damaged=True))
    assert (damaged.value.offset, printer.left, printer.printed) == (4, 5, {WHERE: 4})
    assert out.getvalue().count(b"\n") == 4


def pieces(records: Sequence[Record]) -> tuple[bytes, list[int]]:
    """The lines of records in JSON, and how many came at a time."""
    found = list(json_formatter().pieces(WHERE, records))
    return b"".join(text for text, _ in found), [count for _, count in found]


@pytest.mark.parametrize(
    ("fields", "at_once"),
    [
        ([(None, b"a"), (None, b'"\\n\n\x00 \xc3\xa9')], True),
        ([(b"k", b""), (b"", b"")], True),
        ([(b"k", None), (b"l", None)], True),
        ([(b"k", b"v"), (None, b"v")], False),
        ([(None, b"v"), (None, None)], False),
        ([(None, b"\x7f"), (None, b"")], False),
        ([(None, b"\xff"), (None, b"v")], False),
        ([(None, b"\xc3"), (None, b"\xa9")], False),
    ],
)
def test_many_records_in_json_are_the_lines_of_each(
    fields: list[tuple[bytes | None, bytes | None]], at_once: bool
) -> None:
    records = [Record(7 + at, -1 if at else 5, *both) for at, both in enumerate(fields)]
    single = json_formatter()
    expected = b"".join(single(WHERE, record) for record in records)
    assert pieces(records) == (expected, [2] if at_once else [1, 1])
    records.append(Record(9, 1, None, b"v", [("h", b"x")]))
    assert pieces(records)[0] == expected + single(WHERE, records[-1])


@settings(max_examples=60, derandomize=True)
@given(st.lists(st.tuples(st.none() | st.text(max_size=4), st.text(max_size=9)), max_size=5))
def test_texts_in_json_are_alike_alone_and_together(texts: list[tuple[str | None, str]]) -> None:
    records = [
        Record(at, at, None if key is None else key.encode(), value.encode())
        for at, (key, value) in enumerate(texts)
    ]
    assert pieces(records)[0] == b"".join(json_formatter()(WHERE, record) for record in records)
