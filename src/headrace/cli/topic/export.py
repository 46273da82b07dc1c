"""`headrace topic export`: write a topic's records to files for other tools."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Literal

from cyclopts import Parameter

from headrace.cli.records.topic_reading import DataDirectory, Level, topics_of
from headrace.model.nouns import TopicPartition
from headrace.record.record import Record
from headrace.terminal.broker_options import BrokerOptions
from headrace.terminal.failure import UsageError, check_installed, not_found
from headrace.terminal.output import counted, note
from headrace.terminal.record_formats import json_formatter

if TYPE_CHECKING:
    from headrace.arrow.write.json_lines import RowLine

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)


def export(
    topic: str,
    *,
    to: Annotated[Literal["parquet", "csv", "jsonl"], Parameter(help="The format of the files.")],
    output: Annotated[
        Path,
        Parameter(
            name=["-o", "--output"],
            help="A file; in an existing directory, one file for each partition.",
        ),
    ],
    overwrite: Annotated[bool, Parameter(help="Replace an existing file.")] = False,
    data: DataDirectory = None,
    isolation: Level = "read_committed",
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008 - a frozen value
) -> None:
    """Write the records of a topic to files."""
    check_installed("pyarrow", "numpy", packages=("pyarrow", "numba", "numpy"))
    from headrace.arrow.sql.topic_source import bound_line
    from headrace.arrow.write.json_lines import COLUMNS
    from headrace.arrow.write.topic_files import write_file

    source = topics_of(data, cluster)
    names = source.names()
    if topic not in names:
        raise not_found("topic", topic, names)
    opened = source.open(topic, isolation)
    files = {output: dict(opened.ranges)}
    if output.is_dir():
        files = {
            output / f"{topic}-{number}.{to}": {number: span}
            for number, span in opened.ranges.items()
        }
    for path in files:
        if path.exists() and not overwrite:
            raise UsageError(f"{path} already exists: pass --overwrite to replace it")
    note(bound_line(opened))
    for path, ranges in files.items():
        with _whole_file(path, overwrite=overwrite) as file:
            batches = opened.read(COLUMNS, ranges)
            count = write_file(file, batches, to, topic, _row_line(topic))
        note(f"{counted(count, 'record')} in {path} ({path.stat().st_size} bytes)")


@contextmanager
def _whole_file(path: Path, *, overwrite: bool) -> Iterator[BinaryIO]:
    """Open a file that appears under its name only once it is complete and on disk.

    On an error it is removed. UsageError if another file got that name meanwhile.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if overwrite:
            part.replace(path)
        else:
            try:
                os.link(part, path)
            except FileExistsError:
                raise UsageError(f"{path} was created meanwhile: it was not replaced") from None
    finally:
        with suppress(FileNotFoundError):
            part.unlink()


def _row_line(topic: str) -> "RowLine":
    """Return a function that encodes a row as a JSON line, with headers and any bytes."""
    format_ = json_formatter()

    def line(row: dict[str, Any]) -> bytes:
        headers = [(header["key"], header["value"]) for header in row["headers"] or ()]
        time_ms = (row["timestamp"] - _EPOCH) // _MS
        record = Record(row["offset"], time_ms, row["key"], row["value"], headers)
        return format_(TopicPartition(topic, row["partition"]), record)

    return line
