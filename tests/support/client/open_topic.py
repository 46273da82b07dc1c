"""Log directories for `headrace.arrow.open`: made on a simulated disk, poured onto the real one."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.config.log_config import LogConfig
from headrace.log.log import Log
from headrace.model.nouns import Offset, TopicPartition
from headrace.testing.disk import SimDisk
from tests.support.log.log import NOW_MS, PLACE, FlushListener, World, append

FIRST = "00000000000000000000"
SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=200, segment_index_bytes=1024)


def pour(disk: SimDisk, source: str, target: Path) -> Path:
    """Write what a process sees below `source` to `target`; returns it."""
    target.mkdir(parents=True, exist_ok=True)
    for name in disk.list(source):
        path = f"{source}/{name}"
        if disk.is_directory(path):
            pour(disk, path, target / name)
            continue
        file = disk.open(path, writable=False)
        (target / name).write_bytes(file.read(0, file.size()))
        file.close()
    return target


def lead(log: Log) -> Log:
    """Let the high watermark follow each flush, as a lone partition does."""

    def flushed(upto: Offset) -> None:
        log.high_watermark = upto

    log.listeners = (FlushListener(flushed),)
    return log


def flush(world: World, log: Log) -> None:
    lead(log)
    world.directory.flusher.flush_soon(log)
    world.settle()


def values(reader: pa.RecordBatchReader) -> list[bytes | None]:
    found: list[bytes | None] = reader.read_all()["value"].to_pylist()
    return found


def rows(reader: pa.RecordBatchReader) -> list[dict[str, Any]]:
    table = reader.read_all()
    table.validate(full=True)
    found: list[dict[str, Any]] = table.to_pylist()
    return found


def fill(world: World, count: int = 60, place: TopicPartition = PLACE) -> list[bytes]:
    """Several segments of one record each 100 bytes, flushed."""
    log = world.log(place)
    wanted = [b"%05d" % number * 20 for number in range(count)]
    for number, value in enumerate(wanted):
        append(log, value, timestamp=NOW_MS + number * 1000)
    flush(world, log)
    return wanted


def poured(world: World, tmp_path: Path) -> Path:
    """Write the world's log directory below `tmp_path`; returns it."""
    return pour(world.disk, "/data", tmp_path / "log")


def logs_of(directory: Path) -> list[Path]:
    """List the `.log` files of `t-0`, oldest first."""
    return sorted((directory / "t-0").glob("*.log"))
