"""Which reader a file needs, by its name."""

from collections.abc import Iterator

from headrace.log import bounds, names
from headrace.log.dump import beside, texts
from headrace.log.dump.batches import dump_batches
from headrace.log.dump.row import ReadAt, Row
from headrace.model.errors import HeadraceError

__all__ = ["Row", "UnknownFile", "dump", "kind_of"]

_ENDINGS = (names.DELETED, names.CLEANED, names.SWAP)
_BY_SUFFIX = {
    names.INDEX: beside.dump_index,
    names.TIME_INDEX: beside.dump_time_index,
    names.TXN_INDEX: beside.dump_txn_index,
    names.SNAPSHOT: beside.dump_snapshot,
}
_BY_NAME = {
    names.LEADER_EPOCHS: texts.dump_epochs,
    names.PARTITION_METADATA: texts.dump_partition_metadata,
    names.META_PROPERTIES: texts.dump_properties,
    names.CLEAN_SHUTDOWN: texts.dump_json,
    "quorum-state": texts.dump_json,
    names.LOCK: texts.dump_nothing,
    names.RECOVERY_POINTS: texts.dump_offsets,
    names.LOG_STARTS: texts.dump_offsets,
    names.HIGH_WATERMARKS: texts.dump_offsets,
    names.CLEANER_OFFSETS: texts.dump_offsets,
    bounds.NAME: texts.dump_bounds,
}


class UnknownFile(HeadraceError):
    """A file that no log directory has."""


def kind_of(path: str) -> str:
    """`.log`, `.index`, `leader-epoch-checkpoint`, …: what the file is by its name. UnknownFile."""
    name = path.rpartition("/")[2]
    for ending in _ENDINGS:
        name = name.removesuffix(ending)
    if name in _BY_NAME:
        return name
    if name.endswith(".checkpoint"):
        return ".checkpoint"
    parsed = names.parse_segment_file(name)
    if parsed is not None and (parsed[1] == names.LOG or parsed[1] in _BY_SUFFIX):
        return parsed[1]
    raise UnknownFile(
        f"{path}: not a file of a log directory (known: 20 digits with .log, .index, .timeindex, "
        ".txnindex or .snapshot, the checkpoint files, partition.metadata, meta.properties)"
    )


def dump(
    path: str, size: int, read_at: ReadAt, *, records: bool = False, topic: str | None = None
) -> Iterator[Row]:
    """The file's entries as dicts of plain values, read through `read_at(position, size)`.

    `records`: a batch's row is followed by one for each of its records; those of the coordinators'
    topics come decoded (told by `topic`, or by the name of the directory). UnknownFile at once,
    CorruptLogError on the way.
    """
    kind = kind_of(path)
    if kind in {names.LOG, ".checkpoint"}:
        return dump_batches(path, size, read_at, records=records, topic=topic)
    if kind in _BY_SUFFIX:
        return _BY_SUFFIX[kind](path, size, read_at)
    return _BY_NAME[kind](path, read_at(0, size))
