"""Log directories for `headrace.arrow.open`: made on a simulated disk, poured onto the real one."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.config.log_config import LogConfig
from headrace.log.log import Log
from headrace.model.nouns import Offset
from headrace.testing.disk import SimDisk
from tests.support.log import FlushListener, World

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
