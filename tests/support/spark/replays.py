"""A live table of two days, and replays of its first day, without Spark."""

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from headrace.pipeline.replays.begin import begin_replay, end_building
from headrace.pipeline.replays.replay import Replay
from headrace.pipeline.replays.replay_store import ReplayStore
from headrace.pipeline.replays.steps import compare_replay
from headrace.spark.tables.delta_parts.partition_range import PartitionRange
from tests.support.spark.tables import DAY_US, SCHEMA, Run, read, write

SOURCE = str(Path(__file__).parents[3] / "src" / "headrace")
TRACED = (f"{SOURCE}/pipeline/replays/", f"{SOURCE}/spark/tables/delta_parts/")
"""Code in which a replay is killed."""
FIRST_DAY = PartitionRange("timestamp_day", "1970-01-01", "1970-01-02")
NOW_MS = 1_795_000_000_000
KEYS = (("partition", "offset"),)
OLD, NEW = "old", "new"
FIRST = [0, 2, 4, 6]
"""Offsets of the first day."""


def records(offsets: list[int], value: str) -> pa.RecordBatch:
    """Rows of these offsets; even ones are of the first day, odd ones of the second."""
    return pa.record_batch(
        [
            [b"k" for _ in offsets],
            [value.encode() for _ in offsets],
            pa.array([0] * len(offsets), pa.int32()),
            offsets,
            pa.array([at % 2 * DAY_US + at for at in offsets], SCHEMA[4].type),
        ],
        schema=SCHEMA,
    )


class Shop:
    """A storage directory with the table `table`."""

    def __init__(self, storage: Path, **options: Any) -> None:
        self.store = ReplayStore(storage)
        self.live = Run(storage, "delta", partitionBy="day(timestamp)", **options)
        self.storage = storage

    def batch(self, number: int, offsets: list[int], value: str = OLD) -> None:
        """Commit a live batch."""
        write(self.live, number, records(offsets, value))

    def begin(self, range_: PartitionRange | None = FIRST_DAY) -> Replay:
        return begin_replay(self.store, "orders", "table", range_, NOW_MS, KEYS)

    def build(self, offsets: list[int], range_: PartitionRange | None = FIRST_DAY) -> Replay:
        """A replay whose rows have new values, compared with the table."""
        replay = self.begin(range_)
        run = Run(self.storage, "delta", f"check-{replay.id}", partitionBy="day(timestamp)")
        run.options["path"] = str(self.store.built(replay))
        for batch, at in enumerate((offsets[::2], offsets[1::2])):
            write(run, batch, records(at, NEW))
        end_building(self.store, replay)
        return compare_replay(self.store, replay.id)

    def rows(self) -> dict[int, str]:
        """Values of the table by offset; fails if an offset is there twice."""
        table = read(self.live.path, "delta")
        at = table.column("offset").to_pylist()
        assert len(at) == len(set(at)), sorted(at)
        return dict(
            zip(at, (value.decode() for value in table.column("value").to_pylist()), strict=True)
        )

    def compact(self) -> None:
        """Compact all partitions, as another program does."""
        DeltaTable(str(self.live.path)).optimize.compact()

    def copy(self, storage: Path) -> "Shop":
        """The same storage elsewhere, its hard links too."""
        copied: dict[int, str] = {}

        def copy_or_link(source: str, target: str) -> None:
            first = copied.setdefault(Path(source).stat().st_ino, target)
            if first == target:
                shutil.copy2(source, target)
            else:
                os.link(first, target)

        shutil.copytree(self.storage, storage, copy_function=copy_or_link)
        return Shop(storage)


def killed_at_each_line(shop: Shop, copies: Path, call: Callable[[], object]) -> list[Shop]:
    """Call; return copies of the storage as a process leaves it that is killed at any line.

    Lines are those of a replay's code. Two lines between which no file has changed are one copy;
    the last one is that of the end.
    """
    found: list[Shop] = []
    before: object = None

    def keep() -> None:
        nonlocal before
        state = {
            path: (at.st_ino, at.st_size, at.st_mtime_ns)
            for path in shop.storage.rglob("*")
            for at in [path.stat()]
        }
        if state != before:
            before = state
            found.append(shop.copy(copies / f"killed-{len(found)}"))

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        if not frame.f_code.co_filename.startswith(TRACED):
            return None
        if event == "line":
            keep()
        return trace

    traced = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(traced)
    keep()
    return found


def expected(first: str, *, more: dict[int, str] | None = None) -> dict[int, str]:
    """Rows of the two batches of a shop, those of the first day with this value."""
    return {at: first if at % 2 == 0 else OLD for at in range(8)} | (more or {})


def files_below(directory: Path) -> dict[str, bytes]:
    """Contents of all files below a directory."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }
