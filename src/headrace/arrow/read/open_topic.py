"""`headrace.arrow.open`: read a topic's records from segments on disk, with or without a broker.

Returns the records that were readable when `open` was called: durable, below the high watermark,
and with read_committed below the last stable offset. A running broker publishes these bounds
(`log/directory/durable_read_bounds`). After a clean shutdown everything is readable; otherwise,
what recovery is certain to keep.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Literal, get_args

import pyarrow as pa

from headrace.arrow.read.columns import COLUMNS, TYPES, schema
from headrace.arrow.read.parallel import in_turn, side_by_side
from headrace.arrow.read.partition_files import PartitionFiles
from headrace.arrow.read.segment_stream import PartitionRead, read
from headrace.arrow.typed.typed_rows import (
    RECORD_COLUMNS,
    Mode,
    TypedRanges,
    TypedValues,
    columns_to_read,
)
from headrace.log import file_names
from headrace.log.directory.state_files.durable_read_bounds import (
    ReadBound,
    clean_still,
    read_bound,
)
from headrace.log.segment.scan import BadBatch
from headrace.model.errors import ApiError, CorruptLogError, ErrorCode
from headrace.model.nouns import Offset, TopicPartition, topic_name_problem
from headrace.posix.read_only_disk import ReadOnlyDisk
from headrace.typed.ddl import SchemaError

BATCH_ROWS = 8192
"""Rows per RecordBatch. Three of them, one being filled, fit into a core's cache: measured a tenth
faster than 32,768; smaller ones cost more to create than they save."""
_TRIES = 20

Isolation = Literal["read_uncommitted", "read_committed"]
RefusedMode = Literal["failfast", "permissive", "dropmalformed"]
Range = tuple[int | None, int | None]
Time = datetime | int
"""A point in time: a datetime with time zone, or ms since 1970."""


def open(  # noqa: A001 - headrace.arrow.open is its name
    log_dir: str | os.PathLike[str],
    topic: str,
    *,
    partitions: Sequence[int] | None = None,
    offsets: Range | Mapping[int, Range] | None = None,
    times: tuple[Time | None, Time | None] | None = None,
    columns: Sequence[str] = COLUMNS,
    isolation: Isolation = "read_uncommitted",
    batch_rows: int = BATCH_ROWS,
    threads: int = 1,
    value_schema: str | None = None,
    mode: RefusedMode = "failfast",
) -> pa.RecordBatchReader:
    """Return the records of `topic` in log directory `log_dir` as a pyarrow.RecordBatchReader.

    * `partitions`: partition numbers; None: all that have a directory.
    * `offsets`: (start, end), for all partitions or by partition; None is the first offset or the
      end. Bounds are clipped to the log, so a start below it is no error. The end is exclusive.
    * `times`: (start, end); from the first record at or after the start to before the first at or
      after the end, as Kafka's offsetsForTimes. Not together with `offsets`.
    * `columns`: any of key, value, topic, partition, offset, timestamp, timestampType, headers,
      amqp.
    * `isolation`: read_committed skips aborted transactions and ends before the first open one.
    * `batch_rows`: maximum rows per RecordBatch.
    * `threads`: partitions read at once. With 1 they come one after the other; with more they are
      interleaved, each in order.
    * `value_schema`: the fields of JSON values in Spark's DDL (docs/typed-topics.md). A row has
      these fields, then the record's `columns` with an underscore before their names, by default
      partition, offset and timestamp.
    * `mode`: with a value that does not fit, "failfast" raises RefusedRecordError, "permissive"
      makes all fields null, "dropmalformed" leaves the row out.

    ApiError UNKNOWN_TOPIC_OR_PARTITION (also while reading, if the topic is deleted) or
    INVALID_TOPIC_EXCEPTION. CorruptLogError, with file and position, for corrupt data. ValueError
    for invalid arguments. Raises OSError.
    """
    directory = os.fspath(log_dir)
    _check(topic, columns, isolation, batch_rows, threads, offsets, times)
    typed = None
    if value_schema is not None:
        columns = RECORD_COLUMNS if columns is COLUMNS else columns
        typed = _typed(value_schema, mode, columns)
    tasks = [
        _plan(directory, TopicPartition(topic, number), _range(offsets, number), times, isolation)
        for number in _partitions(directory, topic, partitions)
    ]

    names = tuple(columns) if typed is None else columns_to_read(columns)
    tasks = [task for task in tasks if task.start < task.end]
    sources = [partial(read, task, names, batch_rows) for task in tasks]
    row_schema = schema(columns, topic_dictionary=True)
    if typed is not None:
        row_schema = typed.schema(columns)
        sources = [
            partial(_typed_rows, typed, columns, task, source)
            for task, source in zip(tasks, sources, strict=True)
        ]
    batches = in_turn(sources) if threads == 1 else side_by_side(sources, threads)
    return pa.RecordBatchReader.from_batches(row_schema, batches)


def ranges(
    log_dir: str | os.PathLike[str], topic: str, isolation: Isolation
) -> dict[int, tuple[int, int]]:
    """Return the first offset and the readable end of each partition. Errors as in `open`."""
    directory = os.fspath(log_dir)
    _check(topic, COLUMNS, isolation, 1, 1, None, None)
    found = {}
    for number in _partitions(directory, topic, None):
        task = _plan(directory, TopicPartition(topic, number), (None, None), None, isolation)
        found[number] = (task.start, max(task.start, task.end))
    return found


def _check(
    topic: str, columns: Sequence[str], isolation: str, batch_rows: int, threads: int,
    offsets: object, times: object,
) -> None:  # fmt: skip
    problem = topic_name_problem(topic)
    if problem is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic!r}: {problem}")
    unknown = [name for name in columns if name not in TYPES]
    if unknown or not columns:
        raise ValueError(f"columns: {unknown or 'none'}; there are {', '.join(TYPES)}")
    if isolation not in ("read_uncommitted", "read_committed"):
        raise ValueError(f"isolation {isolation!r}: read_uncommitted or read_committed")
    if batch_rows < 1 or threads < 1:
        raise ValueError("batch_rows and threads are 1 or more")
    if offsets is not None and times is not None:
        raise ValueError("offsets or times, not both")


def _typed(ddl: str, mode: str, columns: Sequence[str]) -> TypedValues:
    modes = get_args(RefusedMode)
    if mode not in modes:
        raise ValueError(f"mode {mode!r}: {', '.join(modes)}")
    try:
        return TypedValues(ddl, Mode(mode)).checked(columns)
    except SchemaError as error:
        raise SchemaError(f"value_schema: {error}") from None


def _typed_rows(
    typed: TypedValues, columns: Sequence[str], task: PartitionRead,
    source: Callable[[], Iterator[pa.RecordBatch]],
) -> Iterator[pa.RecordBatch]:  # fmt: skip
    # A decoder of its own for each partition: several may be read at once.
    return TypedRanges(typed, columns, str(task.files.place)).rows(source())


def _partitions(directory: str, topic: str, wanted: Sequence[int] | None) -> list[int]:
    parsed = map(file_names.parse_directory, os.listdir(directory))
    numbers = sorted(
        place.partition for place in parsed if place is not None and place.topic == topic
    )
    missing = sorted(set(wanted or ()) - set(numbers))
    if missing or not numbers:
        which = ", ".join(f"{topic}-{number}" for number in missing) or topic
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{which} is not in {directory}")
    return numbers if wanted is None else sorted(set(wanted))


def _range(offsets: Range | Mapping[int, Range] | None, partition: int) -> Range:
    if isinstance(offsets, Mapping):
        offsets = offsets.get(partition)
    start, end = offsets or (None, None)
    if start is not None and end is not None and start > end:
        raise ValueError(f"offsets: {start} lies behind {end}")
    return start, end


def _milliseconds(moment: Time) -> int:
    if not isinstance(moment, datetime):
        return moment
    if moment.tzinfo is None:
        raise ValueError(f"times: {moment} has no time zone")
    return int(moment.timestamp() * 1000)


def _plan(
    directory: str, place: TopicPartition, wanted: Range,
    times: tuple[Time | None, Time | None] | None, isolation: Isolation,
) -> PartitionRead:  # fmt: skip
    files = PartitionFiles(directory, place)
    bound = _bound(directory, files)
    last = bound.end or 0
    committed = isolation == "read_committed"
    if committed:
        last = files.stable_offset(last) if bound.stable is None else bound.stable
    first = max(bound.start, min(files.bases, default=0))
    start, end = wanted
    if times is not None:
        since, until = times
        if since is not None:
            start = files.first_from_time(_milliseconds(since), first, last)
        if until is not None:
            end = files.first_from_time(_milliseconds(until), first, last)
    start = max(first, start or 0)
    end = last if end is None else min(last, end)
    aborted = files.aborted(start) if committed and start < end else []
    return PartitionRead(files, start, end, bound.end or 0, aborted)


def _bound(directory: str, files: PartitionFiles) -> ReadBound:
    """Return the readable offsets of a partition, from `durable-read-bounds`.

    Without an end there, after a clean shutdown, they end where the files end. CorruptLogError: the
    broker starts and stops faster than the files can be read. Raises BadBatch.
    """
    disk = ReadOnlyDisk()
    for _ in range(_TRIES):
        bound = read_bound(disk, directory, files.place, files.topic_id)
        if bound.end is not None:
            return bound
        try:
            end = files.end_offset()
        except BadBatch:
            if clean_still(disk, directory):
                raise
            continue  # A broker has started and is writing.
        if clean_still(disk, directory):
            return bound._replace(end=Offset(end))
        files.list_again()
    raise CorruptLogError(f"{directory}: starts and stops faster than it can be read")
