"""Verify a single file: a segment's files against the segment, any other by reading it."""

from contextlib import closing

from headrace.log import file_names
from headrace.logtools.dump import dump, kind_of
from headrace.logtools.verify.directory import durable_end
from headrace.logtools.verify.report import Kind, Report
from headrace.logtools.verify.segment import SegmentCheck, Trust
from headrace.model.errors import CorruptLogError
from headrace.ports.disk import Disk

_CHECKED_WITH_LOG = (file_names.LOG, file_names.INDEX, file_names.TIME_INDEX)


def verify_file(disk: Disk, path: str, report: Report) -> None:
    """Verify one file. Raises UnknownFile or OSError."""
    kind = kind_of(path)
    directory, _, name = path.rpartition("/")
    parsed = file_names.parse_segment_file(name)
    if parsed is not None and parsed[1] in _CHECKED_WITH_LOG:
        inner = Report(live=report.live, progress=report.progress)
        durable = durable_end(disk, directory) if report.live else 0
        trust = Trust(last=report.live, durable=durable)
        check = SegmentCheck(disk, directory, parsed[0], inner, trust, parsed[0])
        for _ in check.walk():
            pass
        # For a `.log` all findings count, for an index only its own.
        report.findings += [
            finding
            for finding in inner.findings
            if parsed[1] == file_names.LOG or finding.path == path
        ]
        report.segments += inner.segments
        report.batches += inner.batches
        report.records += inner.records
        report.bytes += inner.bytes
        report.unchecked += inner.unchecked
        return
    with closing(disk.open(path, writable=False)) as file:
        try:
            for _ in dump(path, file.size(), file.read, records=True):
                pass
        except CorruptLogError as error:
            report.damage(_KINDS.get(kind, Kind.FILE), path, str(error).removeprefix(f"{path}: "))


_KINDS = {
    file_names.TXN_INDEX: Kind.TXN_INDEX,
    file_names.SNAPSHOT: Kind.SNAPSHOT,
    file_names.LEADER_EPOCHS: Kind.EPOCHS,
    file_names.PARTITION_METADATA: Kind.METADATA,
}
