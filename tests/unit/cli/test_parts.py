"""Parts of commands: what flags add to JSON lines, places in a topic, copies of index files."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.cli.log.copying import Copier
from headrace.cli.records import produce as producing
from headrace.cli.records.lines import LineParser
from headrace.cli.records.sending import Sender
from headrace.cli.shared.failure import CommandError
from headrace.cli.shared.offset_positions import Place, resolve_places
from headrace.client.producer import Producer
from headrace.client.sync import connect, run
from headrace.model.nouns import TopicPartition
from headrace.testing import BrokerThread

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
        ('{"foo":"a"}', "there is no field 'foo'; known are headers, key, "),
        ('{"key":"k"}', 'no "value"; null stands for none'),
        ('{"value":"v","partition":"1"}', "partition: must be a number, 0 or more"),
        ('{"value":"v","partition":-2}', "partition: must be a number, 0 or more"),
        ('{"value":"v","timestamp":true}', "timestamp: must be a number, 0 or more"),
        ('{"value":"v","headers":{"a":"b"}}', "headers: must be a list of objects"),
        ('{"value":"v","headers":[{"name":"b"}]}', "headers: there is no field 'name'"),
        ('{"value":"v","value_base64":"eA=="}', "value and value_base64: give one of them"),
        ('{"value":"?","value_encoding":"base64"}', "value: no base64"),
        ('{"value":"x","value_encoding":"hex"}', "value_encoding: only base64 is known"),
    ],
)
def test_a_json_line_that_would_not_be_stored_as_it_says_is_refused(line: str, why: str) -> None:
    with pytest.raises(CommandError) as refused:
        LineParser(json=True).parse(line.encode(), 7)
    assert str(refused.value).startswith(f"line 7: no record in JSON: {why}")


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
    class Taken(Producer):
        sent: list[Any]

        async def send(self, *words: Any, **named: Any) -> TopicPartition:
            self.sent.append((*words, named["headers"], named["partition"]))
            return WHERE

    with connect("127.0.0.1:1") as client:
        producer = Taken(client)
        producer.sent = []
        sender = Sender(producer, "t", LineParser(key=b"k", headers=[("h", b"v")]), 4)
        run(sender.send([b"a\r", b"\r\r", b"b"]))
    assert [sent[:3] for sent in producer.sent] == [
        ("t", b"a", b"k"), ("t", b"\r", b"k"), ("t", b"b", b"k"),
    ]  # fmt: skip
    assert {(tuple(sent[3]), sent[4]) for sent in producer.sent} == {((("h", b"v"),), 4)}
    assert sender.number == 3
