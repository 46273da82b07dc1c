"""`headrace.arrow.open`: records straight from the segments on disk, with or without a broker.

What comes back is what was there when `open` was called: durable, below the high watermark, and
for read_committed below the last stable offset. A broker that runs beside publishes how far that is
(`log/directory/durable_read_bounds`); after a clean stop it is everything, after any other what
recovery keeps for sure.
"""

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Literal

import pyarrow as pa

from headrace.arrow.read.columns import COLUMNS, TYPES, schema
from headrace.arrow.read.parallel import in_turn, side_by_side
from headrace.arrow.read.partition_files import PartitionFiles
from headrace.arrow.read.segment_stream import PartitionRead, read
from headrace.log import file_names
from headrace.log.directory.durable_read_bounds import ReadBound, clean_still, read_bound
from headrace.log.segment.scan import BadBatch
from headrace.model.errors import ApiError, CorruptLogError, ErrorCode
from headrace.model.nouns import Offset, TopicPartition, topic_name_problem
from headrace.posix.read_only_disk import ReadOnlyDisk

BATCH_ROWS = 8192
"""Three of them, one being filled, are to stay in a core's own cache: measured a tenth faster than
32,768, while smaller ones cost more to make than they save."""
_TRIES = 20

Isolation = Literal["read_uncommitted", "read_committed"]
Range = tuple[int | None, int | None]
Time = datetime | int
"""A moment: a datetime with its zone, or milliseconds since 1970."""


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
) -> pa.RecordBatchReader:
    """Return the records of `topic` in the log directory `log_dir`, as a pyarrow.RecordBatchReader.

    * `partitions`: all that have a directory there, unless given.
    * `offsets`: (start, end), for all or by partition; None is the first or the end. Both bound
      what is given, so that a start below the log's is no error. The end is exclusive.
    * `times`: (start, end); from the first record not older than the start to before the first not
      older than the end, as Kafka's offsetsForTimes finds them. Not together with `offsets`.
    * `columns`: any of key, value, topic, partition, offset, timestamp, timestampType, headers,
      amqp.
    * `isolation`: read_committed leaves out what aborted transactions wrote, and ends where the
      first open one begins.
    * `batch_rows`: rows per RecordBatch, at most.
    * `threads`: partitions read at a time. With 1 they come one after the other; with more they
      come mixed, each one's records still in order.

    ApiError: UNKNOWN_TOPIC_OR_PARTITION (also while reading, when the topic is deleted),
    INVALID_TOPIC_EXCEPTION. CorruptLogError, with file and position, for bytes that are not what
    was written. ValueError for arguments that make no sense. OSError.
    """
    directory = os.fspath(log_dir)
    _check(topic, columns, isolation, batch_rows, threads, offsets, times)
    tasks = [
        _plan(directory, TopicPartition(topic, number), _range(offsets, number), times, isolation)
        for number in _partitions(directory, topic, partitions)
    ]

    sources = [
        partial(read, task, tuple(columns), batch_rows) for task in tasks if task.start < task.end
    ]
    batches = in_turn(sources) if threads == 1 else side_by_side(sources, threads)
    return pa.RecordBatchReader.from_batches(schema(columns, topic_dictionary=True), batches)


def ranges(
    log_dir: str | os.PathLike[str], topic: str, isolation: Isolation
) -> dict[int, tuple[int, int]]:
    """Return how far each partition may be read now: its first offset and its end. As `open`."""
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
    """Tell how far the partition may be read now; after a clean stop as far as its files go."""
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
            continue  # a broker has started, and writes
        if clean_still(disk, directory):
            return bound._replace(end=Offset(end))
        files.list_again()
    raise CorruptLogError(f"{directory}: starts and stops faster than it can be read")
