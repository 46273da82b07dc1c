"""A single file: a segment's with the segment it belongs to, any other by reading it."""

from contextlib import closing

from headrace.log import names
from headrace.log.dump import dump, kind_of
from headrace.log.verify.report import Kind, Report
from headrace.log.verify.segment import SegmentCheck, Trust
from headrace.model.errors import CorruptLogError
from headrace.world.disk import Disk

_CHECKED_WITH_LOG = (names.LOG, names.INDEX, names.TIME_INDEX)


def verify_file(disk: Disk, path: str, report: Report) -> None:
    """Check one file. UnknownFile, OSError."""
    kind = kind_of(path)
    directory, _, name = path.rpartition("/")
    parsed = names.parse_segment_file(name)
    if parsed is not None and parsed[1] in _CHECKED_WITH_LOG:
        inner = Report(live=report.live, progress=report.progress)
        check = SegmentCheck(disk, directory, parsed[0], inner, Trust(last=report.live), parsed[0])
        for _ in check.walk():
            pass
        # A segment's own file stands for all three, an index only for itself.
        report.findings += [
            one for one in inner.findings if parsed[1] == names.LOG or one.path == path
        ]
        report.segments += inner.segments
        report.batches += inner.batches
        report.records += inner.records
        report.bytes += inner.bytes
        return
    with closing(disk.open(path, writable=False)) as file:
        try:
            for _ in dump(path, file.size(), file.read, records=True):
                pass
        except CorruptLogError as error:
            report.damage(_KINDS.get(kind, Kind.FILE), path, str(error).removeprefix(f"{path}: "))


_KINDS = {
    names.TXN_INDEX: Kind.TXN_INDEX,
    names.SNAPSHOT: Kind.SNAPSHOT,
    names.LEADER_EPOCHS: Kind.EPOCHS,
    names.PARTITION_METADATA: Kind.METADATA,
}
