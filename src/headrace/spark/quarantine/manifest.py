"""A batch's manifest: all records that the batch refuses, in one file named by its digest.

The driver makes it from the spool's files before the sink commits, and the sink's commit stores the
digest. So the sink decides which of several runs' manifests counts, and a repeated batch publishes
that one, whatever its own tasks refuse. Rows have the schema of `refused`; a record that several
scans refuse is one row.
"""

import json
import uuid
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from headrace.spark.durable import flush_file, make_directories, replace_durably
from headrace.spark.quarantine.refused import SCHEMA, RefusedRecord, records_of
from headrace.spark.quarantine.spool import PLANNED, READ, SUFFIX, BatchRun, Planned, Spool

NOTHING_REFUSED = 0
"""The digest of a batch without a manifest."""
_CHUNK_BYTES = 1 << 20
_INFO = b"headrace.manifest"


class Refusals(NamedTuple):
    """The refused records of one topic in a batch."""

    topic: str
    schema: str
    """Digest of the declared schema."""
    planned: tuple[Planned, ...]
    """The topic's ranges in this batch."""
    read: int
    """Number of records read; offsets, in ranges without a refused record."""
    refused: int
    first: RefusedRecord


class Checked(NamedTuple):
    """The records of one topic in a batch whose rows fail a check, without replayed ones."""

    topic: str
    refused: int
    first: RefusedRecord


class Manifest(NamedTuple):
    """A manifest on disk."""

    path: Path
    digest: int
    """A digest of the content, from 1 to 2**63 - 1."""
    topics: tuple[Refusals, ...]
    """Records that the source refuses."""
    checked: tuple[Checked, ...] = ()
    """Records whose rows fail a check."""


class _RangeFile(NamedTuple):
    begin: int
    end: int
    path: Path


def write_manifest(spool: Spool, at: BatchRun, files: Collection[Path] = ()) -> Manifest | None:
    """Write a batch's manifest durably; None if no record is refused. Raises OSError.

    `files`: of rows that fail a check, which the messages of writing tasks name.
    """
    ranges = _range_files(spool.batch(at))
    if not ranges and not files:
        return None
    directory = spool.query(at.query)
    make_directories(directory)
    temporary = directory / f".{at.batch}.{uuid.uuid4().hex}"
    info = json.dumps({"flow": spool.flow, "query": at.query, "batch": at.batch, "run": at.run})
    try:
        with (
            temporary.open("xb") as file,
            pa.ipc.new_file(file, SCHEMA.with_metadata({_INFO: info.encode()})) as writer,
        ):
            topics = _merge(ranges, writer)
            checked = _merge_checked(files, writer)
        digest = _digest(temporary)
        flush_file(temporary)
        path = manifest_path(spool, at.query, at.batch, digest)
        replace_durably(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return Manifest(path, digest, topics, checked)


def manifest_path(spool: Spool, query: str, batch: int, digest: int) -> Path:
    """Return the path of a manifest."""
    return spool.query(query) / f"{batch}.{digest:016x}{SUFFIX}"


def read_manifest(path: Path) -> Iterator[RefusedRecord]:
    """Yield the records of a manifest. Raises OSError; ArrowInvalid if the file is damaged."""
    for batch in _batches(path):
        yield from records_of(batch)


def refused_by_topic(path: Path) -> dict[str, int]:
    """Return how many records of each topic a manifest has. Raises as `read_manifest`."""
    counts: Counter[str] = Counter()
    for batch in _batches(path):
        counts.update(batch.column("topic").to_pylist())
    return dict(sorted(counts.items()))


def run_of_manifest(path: Path) -> str:
    """Return the id of the run that wrote a manifest."""
    with pa.memory_map(str(path)) as source:
        return str(json.loads(pa.ipc.open_file(source).schema.metadata[_INFO])["run"])


def _merge(
    ranges: dict[str, list[_RangeFile]], writer: pa.RecordBatchFileWriter
) -> tuple[Refusals, ...]:
    by_topic: dict[str, list[Refusals]] = {}
    for place, found in sorted(ranges.items()):
        refusals = _merge_partition(place.rpartition("-")[0], found, writer)
        by_topic.setdefault(refusals.topic, []).append(refusals)
    return tuple(_sum(found) for found in by_topic.values())


def _merge_checked(
    files: Collection[Path], writer: pa.RecordBatchFileWriter
) -> tuple[Checked, ...]:
    """Write the records of rows that fail a check, each once."""
    seen: set[tuple[str, int, int]] = set()
    found: dict[str, Checked] = {}
    for path in sorted(files):
        for batch in _batches(path):
            rows = _unseen(batch, seen)
            writer.write_batch(rows)
            first_time = rows.filter(pc.equal(rows.column("attempt"), 1))
            for record in records_of(first_time.slice(0, 1)):
                before = found.get(record.topic) or Checked(record.topic, 0, record)
                first = min(before.first, record, key=lambda each: (each.partition, each.offset))
                count = before.refused + len(first_time)
                found[record.topic] = before._replace(refused=count, first=first)
    return tuple(found.values())


def _merge_partition(
    topic: str, files: Sequence[_RangeFile], writer: pa.RecordBatchFileWriter
) -> Refusals:
    """Write the refused records of one partition, each once."""
    seen: set[tuple[str, int, int]] = set()
    read: dict[tuple[int, int], int] = {}
    planned: tuple[Planned, ...] = ()
    first: RefusedRecord | None = None
    schema = ""
    for file in files:
        with pa.memory_map(str(file.path)) as source:
            reader = pa.ipc.open_file(source)
            ranges = json.loads(reader.schema.metadata[PLANNED])
            planned = planned or tuple(Planned(*each) for each in ranges)
            for number in range(reader.num_record_batches):
                batch, more = reader.get_batch_with_custom_metadata(number)
                if more is not None and READ in more:
                    read[file.begin, file.end] = int(more[READ])
                rows = _unseen(batch, seen)
                if len(rows):
                    first = first or next(records_of(rows.slice(0, 1)))
                    schema = schema or first.schema
                    writer.write_batch(rows.replace_schema_metadata(None))
    offsets = sum(end - begin for begin, end in read)
    own = sum(end - begin for _, begin, end in planned)
    total = max(own - offsets + sum(read.values()), len(seen))
    if first is None:
        raise ValueError(f"{files[0].path} holds no refused record")
    return Refusals(topic, schema, planned, total, len(seen), first)


def _unseen(batch: pa.RecordBatch, seen: set[tuple[str, int, int]]) -> pa.RecordBatch:
    """Return the rows of records that are not in `seen`, and add them to it."""
    columns = (batch.column(name).to_pylist() for name in ("topic", "partition", "offset"))
    fresh = []
    for place in zip(*columns, strict=True):
        fresh.append(place not in seen)
        seen.add(place)
    return batch if all(fresh) else batch.filter(pa.array(fresh))


def _sum(found: Sequence[Refusals]) -> Refusals:
    """Return the refused records of a topic from those of its partitions.

    Each counts the other partitions' offsets as read, which is corrected here.
    """
    planned = found[0].planned
    offsets = sum(end - begin for _, begin, end in planned)
    surplus = sum(offsets - refusals.read for refusals in found)
    refused = sum(refusals.refused for refusals in found)
    return found[0]._replace(read=max(offsets - surplus, refused), refused=refused)


def _range_files(directory: Path) -> dict[str, list[_RangeFile]]:
    """Return the spool's files of a batch by partition, sorted by range."""
    found: dict[str, list[_RangeFile]] = {}
    if not directory.is_dir():
        return found
    for path in directory.glob(f"*/*{SUFFIX}"):
        if path.name.startswith("."):
            continue
        begin, _, end = path.name.partition(".")[0].partition("-")
        found.setdefault(path.parent.name, []).append(_RangeFile(int(begin), int(end), path))
    return {place: sorted(files) for place, files in found.items()}


def _batches(path: Path) -> Iterator[pa.RecordBatch]:
    with pa.memory_map(str(path)) as source:
        reader = pa.ipc.open_file(source)
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number).replace_schema_metadata(None)


def _digest(path: Path) -> int:
    digest = blake2b(digest_size=8)
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return int.from_bytes(digest.digest(), "big") >> 1 or 1
