"""Choose the reader of a file by its name."""

from collections.abc import Iterator

from headrace.log import file_names
from headrace.log.directory.state_files import durable_read_bounds
from headrace.logtools.dump import segment_files, text_files
from headrace.logtools.dump.batches import dump_batches
from headrace.logtools.dump.row import ReadAt, Row
from headrace.model.errors import HeadraceError

__all__ = ["Row", "UnknownFile", "dump", "kind_of"]

_ENDINGS = (file_names.DELETED, file_names.CLEANED, file_names.SWAP)
_BY_SUFFIX = {
    file_names.INDEX: segment_files.dump_index,
    file_names.TIME_INDEX: segment_files.dump_time_index,
    file_names.TXN_INDEX: segment_files.dump_txn_index,
    file_names.SNAPSHOT: segment_files.dump_snapshot,
}
_BY_NAME = {
    file_names.LEADER_EPOCHS: text_files.dump_epochs,
    file_names.PARTITION_METADATA: text_files.dump_partition_metadata,
    file_names.META_PROPERTIES: text_files.dump_properties,
    file_names.CLEAN_SHUTDOWN: text_files.dump_json,
    "quorum-state": text_files.dump_json,
    file_names.LOCK: text_files.dump_nothing,
    file_names.RECOVERY_POINTS: text_files.dump_offsets,
    file_names.LOG_STARTS: text_files.dump_offsets,
    file_names.HIGH_WATERMARKS: text_files.dump_offsets,
    file_names.CLEANER_OFFSETS: text_files.dump_offsets,
    durable_read_bounds.NAME: text_files.dump_bounds,
}


class UnknownFile(HeadraceError):
    """A file whose name no log directory has."""


def kind_of(path: str) -> str:
    """Return the kind of a file by its name, such as `.log` or `leader-epoch-checkpoint`.

    Raises UnknownFile.
    """
    name = path.rpartition("/")[2]
    for ending in _ENDINGS:
        name = name.removesuffix(ending)
    if name in _BY_NAME:
        return name
    if name.endswith(".checkpoint"):
        return ".checkpoint"
    parsed = file_names.parse_segment_file(name)
    if parsed is not None and (parsed[1] == file_names.LOG or parsed[1] in _BY_SUFFIX):
        return parsed[1]
    raise UnknownFile(
        f"{path}: not a file of a log directory (known: 20 digits with .log, .index, .timeindex, "
        ".txnindex or .snapshot, the checkpoint files, partition.metadata, meta.properties)"
    )


def dump(
    path: str, size: int, read_at: ReadAt, *, records: bool = False, topic: str | None = None
) -> Iterator[Row]:
    """Return the file's entries as dicts of plain values, read by `read_at(position, size)`.

    `records`: after each batch's row, add one for each record; records of the coordinators' topics
    are decoded (by `topic`, else by the directory's name). UnknownFile at once, CorruptLogError
    while iterating.
    """
    kind = kind_of(path)
    if kind in {file_names.LOG, ".checkpoint"}:
        return dump_batches(path, size, read_at, records=records, topic=topic)
    if kind in _BY_SUFFIX:
        return _BY_SUFFIX[kind](path, size, read_at)
    return _BY_NAME[kind](path, read_at(0, size))
