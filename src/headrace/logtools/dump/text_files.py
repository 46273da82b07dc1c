"""Rows of the small files: checkpoints, `partition.metadata`, `meta.properties`, markers."""

from collections.abc import Iterator

from headrace.log import text_files
from headrace.log.directory import durable_read_bounds
from headrace.logtools.dump.row import Row


def dump_offsets(path: str, content: bytes) -> Iterator[Row]:
    """Yield the rows of an `…-offset-checkpoint`, in file order."""
    for place, offset in text_files.read_offsets(content, path).items():
        yield {"topic": place.topic, "partition": place.partition, "offset": offset}


def dump_epochs(path: str, content: bytes) -> Iterator[Row]:
    """Yield the rows of a `leader-epoch-checkpoint`."""
    for epoch, start in text_files.read_epochs(content, path):
        yield {"epoch": epoch, "start_offset": start}


def dump_partition_metadata(path: str, content: bytes) -> Iterator[Row]:
    """Yield the rows of a `partition.metadata`."""
    topic_id = text_files.read_partition_metadata(content, path)
    yield {"version": 0, "topic_id": text_files.encode_uuid(topic_id)}


def dump_properties(_path: str, content: bytes) -> Iterator[Row]:
    """Yield the only row of a `meta.properties`, with all its properties."""
    yield dict(text_files.read_properties(content))


def dump_json(path: str, content: bytes) -> Iterator[Row]:
    """Yield the rows of a `.kafka_cleanshutdown` or of a KRaft broker's `quorum-state`."""
    yield text_files.read_clean_shutdown(content, path)


def dump_bounds(path: str, content: bytes) -> Iterator[Row]:
    """Yield the rows of a `durable-read-bounds`, a file of Headrace that Kafka does not have."""
    for (topic_id, partition), (start, end, stable) in durable_read_bounds.read_slots(
        content, path
    ).items():
        yield {
            "topic_id": text_files.encode_uuid(topic_id),
            "partition": partition,
            "start_offset": start,
            "end_offset": end,
            "last_stable_offset": stable,
        }


def dump_nothing(_path: str, _content: bytes) -> Iterator[Row]:
    """Yield no row: a `.lock` is empty."""
    return iter(())
