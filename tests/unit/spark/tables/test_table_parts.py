"""The parts of tables by themselves: lists of attempts, files, partitions, markers, options."""

import errno
import gc
import os
import threading
import time
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.spark.errors import OptionError
from headrace.spark.tables import attempts, files, marker
from headrace.spark.tables.attempts import OWN_DIRECTORY, Attempt, sweep
from headrace.spark.tables.columns import fits
from headrace.spark.tables.errors import TableError
from headrace.spark.tables.files import FileWriter, Layout, disk_error
from headrace.spark.tables.marker import Marker, is_written
from headrace.spark.tables.merge import groups_to_merge
from headrace.spark.tables.options import MERGE_EVERY, TableOptions, parse_table_options
from headrace.spark.tables.partition import PartitionField, directory_of, split

# --- lists of attempts ----------------------------------------------------------------------------


def attempted(location: Path, pipeline: str, batch: int | None, name: str) -> str:
    """An attempt that has written a file and died; the file's name."""
    attempt = Attempt(location, pipeline, batch)
    attempt.register(name)
    (location / name).write_text("rows")
    return name


def lists(location: Path) -> list[str]:
    return os.listdir(location / OWN_DIRECTORY / "attempts")


def test_a_sweep_takes_what_this_batch_and_earlier_ones_of_the_pipeline_left(
    tmp_path: Path,
) -> None:
    names = [
        attempted(tmp_path, pipeline, batch, f"{pipeline}-{batch}")
        for pipeline, batch in (("p", 4), ("p", 5), ("p", 6), ("other", 4), ("p", None))
    ]
    assert sorted(sweep(tmp_path, "p", 5, lambda: ())) == names[:2]
    assert [(tmp_path / name).exists() for name in names] == [False, False, True, True, True]
    assert len(lists(tmp_path)) == 3
    assert sweep(tmp_path, "p", None, lambda: ()) == []


def test_what_the_table_holds_is_kept_and_its_list_goes(tmp_path: Path) -> None:
    name = attempted(tmp_path, "p", 1, "held")
    assert sweep(tmp_path, "p", 1, lambda: {name}) == []
    assert (tmp_path / name).exists()
    assert lists(tmp_path) == []


def test_a_job_without_a_number_is_taken_for_dead_after_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempted(tmp_path, "p", None, "file")
    now = time.time()
    clock: Any = SimpleNamespace(time=lambda: now + 24 * 3600 - 60)
    monkeypatch.setattr(attempts, "time", clock)
    assert sweep(tmp_path, "p", None, lambda: ()) == []
    clock.time = lambda: now + 24 * 3600 + 60
    assert sweep(tmp_path, "another", 3, lambda: ()) == ["file"]


@pytest.mark.parametrize("path", ["/etc/hosts", "../outside", "a/../../outside"])
def test_a_list_that_names_a_file_outside_of_the_table_is_an_error(
    tmp_path: Path, path: str
) -> None:
    table = tmp_path / "table"
    table.mkdir()
    (tmp_path / "outside").write_text("somebody's")
    Attempt(table, "p", 1).register(path)
    with pytest.raises(TableError, match="names a file outside of the table"):
        sweep(table, "p", 1, lambda: ())
    assert (tmp_path / "outside").exists()


def test_who_holds_a_lock_is_waited_for(tmp_path: Path) -> None:
    entered = threading.Event()

    def enter() -> None:
        with attempts.locked(tmp_path):
            entered.set()

    with attempts.locked(tmp_path):
        other = threading.Thread(target=enter)
        other.start()
        assert not entered.wait(0.2)
    other.join(10)
    assert entered.is_set()


# --- columns --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("of_rows", "column", "fit"),
    [
        (pa.int32(), pa.int32(), True), (pa.int32(), pa.int64(), True),
        (pa.int64(), pa.int32(), False), (pa.uint32(), pa.int64(), False),
        (pa.large_string(), pa.string(), True), (pa.string(), pa.binary(), False),
        (pa.list_(pa.int32()), pa.large_list(pa.int64()), True),
        (pa.list_(pa.int32()), pa.int32(), False), (pa.int64(), pa.float64(), False),
    ],
)  # fmt: skip
def test_a_column_takes_what_it_holds_without_loss(
    of_rows: pa.DataType, column: pa.DataType, fit: bool
) -> None:
    assert fits(of_rows, column) is fit


# --- files ----------------------------------------------------------------------------------------

REGION = pa.schema([("region", pa.int32()), ("value", pa.binary())])


def written(
    tmp_path: Path, *batches: pa.RecordBatch, by: tuple[str, ...] = ("region",), **more: Any
) -> list[tuple[tuple[str | None, ...], int]]:
    """Partition and rows of the files that become of batches, in the order they were closed."""
    fields = tuple(PartitionField(name) for name in by)
    layout = Layout(tmp_path, REGION, partition_by=fields, **more)
    writer = FileWriter(layout, Attempt(tmp_path, "p", 1))
    return [(file.key, file.rows) for file in writer.write_all(batches)]


def of_regions(*regions: int, size: int = 10) -> pa.RecordBatch:
    return pa.record_batch(
        [pa.array(regions, pa.int32()), [os.urandom(size) for _ in regions]], schema=REGION
    )


def test_no_more_files_are_open_than_allowed_and_the_fullest_is_closed_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "OPEN_FILES_MAX", 3)
    three = written(tmp_path, of_regions(1, 2, 2, 2, 3), of_regions(1, 2, 3))
    assert three == [(("1",), 2), (("2",), 4), (("3",), 2)]
    four = written(tmp_path, of_regions(1, 2, 2, 2, 3), of_regions(4), of_regions(2))
    assert four[0] == (("2",), 3)
    assert len(four) == 5


def test_rows_that_wait_in_memory_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "WAITING_BYTES_MAX", 10_000)
    batches = [of_regions(1, 2, 2, size=1000) for _ in range(6)]
    found = written(tmp_path, *batches)
    assert found[0][0] == ("2",), "the fullest goes first"
    assert len(found) > 2
    assert sum(count for _, count in found) == 18


@pytest.mark.parametrize(("size", "count"), [(100_000, 1), (2000, 5)])
def test_sorted_files_end_at_their_bound_and_at_what_is_sorted_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, count: int
) -> None:
    monkeypatch.setattr(files, "SORTED_BYTES_MAX", size)
    batches = [of_regions(*[1] * 2, size=1000) for _ in range(5)]
    assert len(written(tmp_path, *batches, by=(), sort_by=("value",))) == count


def test_files_end_at_their_bytes_and_row_groups_at_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "ROW_GROUP_BYTES", 4000)
    batches = [of_regions(*[1] * 2, size=1000) for _ in range(12)]
    found = written(tmp_path, *batches, by=(), file_bytes=8000)
    assert [count for _, count in found] == [8, 8, 8]
    path = next(tmp_path.glob("part-*.parquet"))
    assert pq.ParquetFile(path).metadata.num_row_groups == 2


def test_each_file_is_on_the_disk_before_it_is_said_to_be_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    sync = os.fsync

    def noted(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_size)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    written(tmp_path, of_regions(1, 2))
    sizes = sorted(file.stat().st_size for file in tmp_path.rglob("*.parquet"))
    assert sorted(synced) == sizes


@pytest.mark.parametrize("full", ["when it is flushed", "all the time"])
def test_a_writer_that_fails_closes_all_its_files_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: str
) -> None:
    if full == "all the time":
        # What is in the file's own buffer finds no room when it is closed either.
        name = "0" * 32
        monkeypatch.setattr(files, "uuid", SimpleNamespace(uuid4=lambda: SimpleNamespace(hex=name)))
        for region in (1, 2, 3):
            (tmp_path / f"region={region}").mkdir()
            (tmp_path / f"region={region}" / f"part-{name}.parquet").symlink_to("/dev/full")
    else:
        monkeypatch.setattr(os, "fsync", no_room)
    before = len(os.listdir("/proc/self/fd"))
    layout = Layout(tmp_path, REGION, partition_by=(PartitionField("region"),))
    writer = FileWriter(layout, Attempt(tmp_path, "p", 1))
    with pytest.raises(TableError, match="no space is left"):
        writer.write_all([of_regions(1, 2, 3)])
    assert len(os.listdir("/proc/self/fd")) == before
    del writer
    gc.collect()  # and none of them is written to as it goes


def no_room(_: int) -> None:
    raise OSError(errno.ENOSPC, "full")


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (errno.ENOSPC, "no space is left"), (errno.EDQUOT, "no space is left"),
        (errno.EIO, "cannot be written"), (errno.ENOENT, "cannot be written"),
    ],
)  # fmt: skip
def test_what_the_disk_refused_is_said(tmp_path: Path, code: int, text: str) -> None:
    assert text in str(disk_error(tmp_path, OSError(code, "it says")))
    gone = disk_error(tmp_path / "gone", OSError(errno.ENOENT, "it says"))
    assert "cannot be written" not in str(gone)


# --- partitions -----------------------------------------------------------------------------------


def test_rows_of_a_partition_keep_their_order_wherever_they_stand() -> None:
    regions = [2, 1, 2, 1, 1, 2] * 50
    batch = pa.record_batch(
        [pa.array(regions, pa.int32()), [str(at).encode() for at in range(300)]], schema=REGION
    )
    found = dict(split(batch, (PartitionField("region"),)))
    assert sorted(found) == [("1",), ("2",)]
    for key, part in found.items():
        numbers = [int(value) for value in part.column("value").to_pylist()]
        assert numbers == [at for at, region in enumerate(regions) if str(region) == key[0]]


def test_a_value_has_its_text_and_an_empty_one_is_no_null() -> None:
    fields = tuple(PartitionField(name) for name in ("flag", "text", "day"))
    batch = pa.record_batch(
        {
            "flag": [True, False, None],
            "text": ["", "a/b=c", None],
            "day": pa.array([date(2026, 1, 2), None, date(1969, 12, 31)], pa.date32()),
        }
    )
    keys = {key for key, _ in split(batch, fields)}
    assert keys == {
        ("true", "", "2026-01-02"), ("false", "a/b=c", None), (None, None, "1969-12-31"),
    }  # fmt: skip
    directories = {directory_of(fields, key) for key in keys}
    assert directories == {
        "flag=true/text=/day=2026-01-02",
        "flag=false/text=a%2Fb%3Dc/day=__HIVE_DEFAULT_PARTITION__",
        "flag=__HIVE_DEFAULT_PARTITION__/text=__HIVE_DEFAULT_PARTITION__/day=1969-12-31",
    }


@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York", "Asia/Tokyo"])
@pytest.mark.parametrize("micros", [0, -1, 86_399_999_999, 86_400_000_000])
def test_a_day_is_one_of_utc_whatever_the_columns_zone_is(zone: str | None, micros: int) -> None:
    assert zone is None or ZoneInfo(zone)
    column = pa.array([micros], pa.timestamp("us", zone))
    ((key, _),) = split(pa.record_batch({"t": column}), (PartitionField("t", by_day=True),))
    assert key == (date.fromordinal(719163 + micros // 86_400_000_000).isoformat(),)


# --- merges ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bytes_max", "chosen"), [(1, [4]), (4, [4]), (5, [4, 3]), (7, [4, 3]), (8, [4, 3, 2])]
)
def test_groups_are_merged_until_they_have_the_bytes_those_of_most_files_first(
    bytes_max: int, chosen: list[int]
) -> None:
    groups = [["f"] * count for count in (2, 1, 4, 0, 3)]
    found = groups_to_merge(groups, lambda file: 1, bytes_max)
    assert [len(group) for group in found] == chosen


# --- markers --------------------------------------------------------------------------------------


def test_which_batch_is_the_one_that_the_table_holds() -> None:
    last = Marker("p", 5, digest=7, query=3, ends=("x",))

    def written_of(batch: int = 5, digest: int = 7, query: int = 3) -> bool:
        return is_written(last, Marker("p", batch, digest, query), lambda found: found.ends)

    assert written_of()
    assert not written_of(batch=6, digest=8)
    assert not is_written(None, Marker("p", 5), lambda found: ())
    assert written_of(digest=0), "a job is known by its number alone"
    assert written_of(batch=4, digest=0)
    assert not written_of(batch=6, digest=0)
    for batch, digest, query in ((5, 8, 3), (4, 7, 3), (6, 8, 4)):
        with pytest.raises(TableError, match="plans another batch"):
            written_of(batch, digest, query)
    assert not written_of(batch=6, digest=8, query=0), "of a release that noted none"


def test_a_digest_is_63_bits_and_never_the_one_that_means_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for content in (bytes(8), b"\0" * 7 + b"\1"):
        digest: Any = SimpleNamespace(digest=lambda content=content: content)
        monkeypatch.setattr(marker, "blake2b", lambda *_, digest=digest, **__: digest)
        assert marker._digest(b"") == 1
    most: Any = SimpleNamespace(digest=lambda: b"\xff" * 8)
    monkeypatch.setattr(marker, "blake2b", lambda *_, **__: most)
    assert marker._digest(b"") == (1 << 63) - 1


# --- options --------------------------------------------------------------------------------------


def parsed(streaming: bool = False, **options: str) -> TableOptions:
    usual = {"tableFormat": "delta", "path": "/t"}
    if streaming:
        usual |= {"pipeline": "p", "checkpointLocation": "/c"}
    return parse_table_options(usual | options, streaming=streaming)


def test_what_is_just_allowed_is_taken() -> None:
    options = parsed(
        fileBytesMax=str(1 << 16), mergeBytesMax=str(1 << 20), mergeEvery="0",
        txnAppId="a", txnVersion="0",
    )  # fmt: skip
    assert (options.file_bytes, options.merge_bytes, options.merge_every) == (1 << 16, 1 << 20, 0)
    assert (options.pipeline, options.version) == ("a", 0)
    for wrong in (
        {"fileBytesMax": str((1 << 16) - 1)}, {"mergeBytesMax": str((1 << 20) - 1)},
        {"mergeEvery": "-1"}, {"txnAppId": "a", "txnVersion": "-1"}, {"txnAppId": "a"},
    ):  # fmt: skip
        with pytest.raises(OptionError):
            parsed(False, **wrong)


@pytest.mark.parametrize(
    ("kind", "every"), [("parquet", 0), ("delta", MERGE_EVERY), ("iceberg", MERGE_EVERY)]
)
def test_files_that_readers_would_wait_for_are_merged_only_where_that_is_asked(
    kind: str, every: int
) -> None:
    more = {"table": "a.b"} if kind == "iceberg" else {}
    assert parsed(True, tableFormat=kind, **more).merge_every == every
    assert parsed(True, tableFormat=kind, mergeEvery="3", **more).merge_every == 3
