"""`headrace.arrow.open`: which rows it returns of a log directory's files."""

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

import headrace.arrow
from headrace.arrow.read import segment_stream
from headrace.arrow.read.columns import HEADERS
from headrace.log.directory.state_files import durable_read_bounds
from headrace.model.errors import ApiError
from headrace.model.nouns import LeaderEpoch, Offset, TopicPartition
from headrace.record import batch as wire
from tests.support.client.open_topic import fill, flush, logs_of, pour, poured, rows, values
from tests.support.log.log import NOW_MS, TOPIC_ID, World, append, append_marker


def test_rows_have_the_sparks_columns_and_the_topic_once(world: World, tmp_path: Path) -> None:
    log = world.log()
    record = wire.Record(0, NOW_MS, b"k", b"v", (("h", b"1"),))
    view = memoryview(bytearray(wire.build([record])))
    log.append(view, wire.parse_header(view), LeaderEpoch(0), NOW_MS)
    flush(world, log)
    directory = poured(world, tmp_path)
    reader = headrace.arrow.open(
        directory, "t", columns=(*headrace.arrow.read.columns.COLUMNS, HEADERS)
    )
    assert reader.schema.field("topic").type == pa.dictionary(pa.int32(), pa.string())
    assert rows(reader) == [
        {
            "key": b"k", "value": b"v", "topic": "t", "partition": 0, "offset": 0,
            "timestamp": datetime.fromtimestamp(NOW_MS / 1000, UTC), "timestampType": 0,
            "headers": [{"key": "h", "value": b"1"}],
        }
    ]  # fmt: skip
    world.close()


@pytest.mark.parametrize("end", ["runs", "stopped", "killed"])
def test_all_that_was_flushed_is_there_whatever_became_of_the_broker(
    world: World, tmp_path: Path, end: str
) -> None:
    wanted = fill(world)
    if end != "runs":
        world.directory.close(clean=end == "stopped")
    directory = poured(world, tmp_path)
    assert len(logs_of(directory)) > 5
    assert values(headrace.arrow.open(directory, "t")) == wanted


def test_what_is_not_flushed_yet_is_not_returned_and_later_it_is(
    world: World, tmp_path: Path
) -> None:
    wanted = fill(world, 3)
    append(world.log(), b"in the page cache")
    assert values(headrace.arrow.open(poured(world, tmp_path), "t")) == wanted
    flush(world, world.log())
    again = pour(world.disk, "/data", tmp_path / "later")
    assert values(headrace.arrow.open(again, "t")) == [*wanted, b"in the page cache"]


@pytest.mark.parametrize("damage", [False, True])
def test_ranges_of_time_go_by_the_first_record_not_older(
    world: World, tmp_path: Path, damage: bool
) -> None:
    wanted = fill(world)
    directory = poured(world, tmp_path)
    if damage:
        for index in directory.glob("t-0/*index"):
            index.write_bytes(b"\x7f" * 96)

    def of(since: int | None, until: int | None) -> list[bytes | None]:
        times = [None if one is None else NOW_MS + one for one in (since, until)]
        return values(headrace.arrow.open(directory, "t", times=(times[0], times[1])))

    assert of(0, None) == of(-5000, 10**9) == wanted
    assert of(10_000, 20_000) == wanted[10:20]
    assert of(10_001, 20_001) == wanted[11:21]
    assert of(None, 500) == wanted[:1]
    assert of(59_001, None) == []
    moment = datetime.fromtimestamp((NOW_MS + 58_000) / 1000, UTC)
    assert values(headrace.arrow.open(directory, "t", times=(moment, None))) == wanted[58:]


def test_committed_reading_leaves_out_what_was_aborted_and_ends_at_an_open_transaction(
    world: World, tmp_path: Path
) -> None:
    log = world.log()

    def transactional(value: bytes, sequence: int) -> None:
        append(log, value * 30, producer=(9, 0, sequence), transactional=True)

    for number in range(12):
        transactional(b"%d" % (number % 2), number)
        append(log, b"p" * 30)
        append_marker(log, 9, commit=number % 2 == 0)
    transactional(b"o", 12)
    append(log, b"behind")
    flush(world, log)
    committed = [one for _ in range(6) for one in (b"0" * 30, b"p" * 30, b"p" * 30)]

    def read(directory: Path) -> list[bytes | None]:
        return values(headrace.arrow.open(directory, "t", isolation="read_committed"))

    running = poured(world, tmp_path)
    assert len(logs_of(running)) > 2
    assert read(running) == committed
    assert len(values(headrace.arrow.open(running, "t"))) == 26
    (running / durable_read_bounds.NAME).unlink()
    assert read(running) == []  # the checkpoints know of nothing yet
    world.directory.close()
    stopped = pour(world.disk, "/data", tmp_path / "stopped")
    assert read(stopped) == committed
    for snapshot in stopped.glob("t-0/*.snapshot"):
        snapshot.unlink()
    assert read(stopped) == committed


@pytest.mark.parametrize("codec", list(wire.Codec))
def test_every_codec_is_read(world: World, tmp_path: Path, codec: wire.Codec) -> None:
    log = world.log()
    records = [wire.new_record(b"%d" % number, timestamp=NOW_MS) for number in range(20)]
    view = memoryview(bytearray(wire.build(records, compression=codec)))
    log.append(view, wire.parse_header(view), LeaderEpoch(0), NOW_MS)
    flush(world, log)
    found = values(headrace.arrow.open(poured(world, tmp_path), "t", offsets=(3, 18)))
    assert found == [b"%d" % number for number in range(3, 18)]


def test_a_batch_larger_than_a_read_is_read_whole(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_stream, "CHUNK_BYTES", 150)
    wanted = fill(world, 20)
    append(world.log(), large := b"x" * 900)
    flush(world, world.log())
    assert values(headrace.arrow.open(poured(world, tmp_path), "t")) == [*wanted, large]


@pytest.mark.parametrize("threads", [1, 3, 8])
def test_partitions_come_all_and_each_in_order(world: World, tmp_path: Path, threads: int) -> None:
    for number in range(5):
        fill(world, 20 + number, TopicPartition("t", number))
    directory = poured(world, tmp_path)
    reader = headrace.arrow.open(directory, "t", threads=threads, batch_rows=7)
    seen: dict[int, list[int]] = {}
    for batch in reader:
        assert batch.num_rows <= 7
        for row in batch.to_pylist():
            seen.setdefault(row["partition"], []).append(row["offset"])
    assert seen == {number: list(range(20 + number)) for number in range(5)}
    chosen = headrace.arrow.open(directory, "t", partitions=[3, 1], columns=["partition"])
    assert {row["partition"] for row in rows(chosen)} == {1, 3}


def test_deleted_records_are_not_returned(world: World, tmp_path: Path) -> None:
    wanted = fill(world)
    world.log().delete_records(Offset(33))
    assert values(headrace.arrow.open(poured(world, tmp_path), "t")) == wanted[33:]
    world.settle()
    world.directory.close()
    stopped = pour(world.disk, "/data", tmp_path / "stopped")
    assert values(headrace.arrow.open(stopped, "t", offsets=(2, 35))) == wanted[33:35]


def test_an_empty_partition_has_no_rows(world: World, tmp_path: Path) -> None:
    world.log()
    world.settle()
    directory = poured(world, tmp_path)
    assert rows(headrace.arrow.open(directory, "t")) == []
    world.directory.close()
    assert rows(headrace.arrow.open(pour(world.disk, "/data", tmp_path / "s"), "t")) == []


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda at: headrace.arrow.open(at, "unknown"), ApiError, "UNKNOWN_TOPIC"),
        (lambda at: headrace.arrow.open(at, "t", partitions=[0, 7]), ApiError, "t-7"),
        (lambda at: headrace.arrow.open(at, "../t"), ApiError, "INVALID_TOPIC"),
        (lambda at: headrace.arrow.open(at, "t", columns=["vlaue"]), ValueError, "vlaue"),
        (lambda at: headrace.arrow.open(at, "t", columns=[]), ValueError, "columns"),
        (lambda at: headrace.arrow.open(at, "t", isolation="x"), ValueError, "isolation"),  # type: ignore[arg-type]
        (lambda at: headrace.arrow.open(at, "t", offsets=(5, 4)), ValueError, "behind"),
        (lambda at: headrace.arrow.open(at, "t", offsets=(1, 2), times=(1, 2)), ValueError, "both"),
        (lambda at: headrace.arrow.open(at, "t", times=(datetime(2026, 1, 1), None)),
         ValueError, "time zone"),
        (lambda at: headrace.arrow.open(at, "t", threads=0), ValueError, "threads"),
        (lambda at: headrace.arrow.open(at / "none", "t"), FileNotFoundError, "none"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_by_name(
    world: World, tmp_path: Path, call: Callable[[Path], object], error: type[Exception], says: str
) -> None:
    fill(world, 3)
    directory = poured(world, tmp_path)
    with pytest.raises(error, match=says):
        call(directory)


def test_nothing_below_the_directory_is_changed(world: World, tmp_path: Path) -> None:
    fill(world)
    directory = poured(world, tmp_path)
    for index in directory.glob("t-0/*index"):
        index.write_bytes(b"\x7f" * 96)
    copy = shutil.copytree(directory, tmp_path / "copy")
    headrace.arrow.open(directory, "t", times=(NOW_MS + 5000, None)).read_all()
    for path in copy.rglob("*"):
        if path.is_file():
            assert (directory / path.relative_to(copy)).read_bytes() == path.read_bytes()
    assert len(list(copy.rglob("*"))) == len(list(directory.rglob("*")))


def test_a_directory_from_before_topic_ids_goes_by_its_checkpoints(
    world: World, tmp_path: Path
) -> None:
    wanted = fill(world)
    world.directory.checkpoint()
    world.settle()
    append(world.log(), b"behind the checkpoint")
    flush(world, world.log())
    directory = poured(world, tmp_path)
    assert TOPIC_ID in (directory / durable_read_bounds.NAME).read_bytes()
    (directory / "t-0" / "partition.metadata").unlink()
    assert values(headrace.arrow.open(directory, "t")) == wanted
