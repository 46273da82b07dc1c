"""`headrace log verify`: check the files of a log directory for damage."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from headrace.cli.log.tools import broker_runs_on, existing, progress, sums
from headrace.logtools.dump import UnknownFile
from headrace.logtools.verify import Report, verify_file, verify_path
from headrace.logtools.verify.directory import bytes_in
from headrace.posix.disk import RealDisk
from headrace.terminal.broker_options import Json
from headrace.terminal.failure import EXIT_FAILED, EXIT_USAGE, CommandError, UsageError
from headrace.terminal.output import counted, note, print_json, print_line

_LIVE = (
    "a broker is running on it: unflushed records, indexes of active segments,"
    " checkpoints and files removed during the check were not verified; stop the broker"
    " to verify all"
)


def verify(
    *paths: Annotated[
        Path, Parameter(help="Log directories, partitions' directories in them, or files.")
    ],
    json: Json = False,
) -> int:
    """Read all files completely and report damage.

    Verifies checksums, offsets and every record, and indexes, aborted transactions, producer
    snapshots, epochs and checkpoints against the log. Nothing is written; a broker may be running.
    Exits with 0 (undamaged), 1 (damaged) or 2 (nothing to check). For example:
    headrace log verify headrace-data
    """
    if not paths:
        raise UsageError("name at least one log directory or file")
    code = 0
    for path, where in [(path, existing(path, "file or directory")) for path in paths]:
        report = verified(where)
        if json:
            _print_json(where, report)
        else:
            _print(path, report)
        code = code if report.sound else EXIT_FAILED
    return code


def verified(where: Path) -> Report:
    """Check a path, with a progress bar. CommandError if it has nothing that can be checked."""
    report = _looked_at(where, "verifying")
    if report.live and not report.sound:
        # Compaction may swap files during the check: real damage is found a second time too.
        second = _looked_at(where, "once more")
        again = {(finding.kind, finding.path) for finding in second.findings if finding.damage}
        report.unchecked = second.unchecked
        report.findings = [
            finding
            for finding in report.findings
            if not finding.damage or (finding.kind, finding.path) in again
        ]
    return report


def _looked_at(where: Path, title: str) -> Report:
    disk = RealDisk(None)
    report = Report(live=broker_runs_on(where))
    try:
        if where.is_dir():
            if not _holds_log(where):
                raise CommandError(
                    f"{where}: neither a log directory nor a partition's; pass one of log.dirs",
                    EXIT_USAGE,
                )
            with progress(title, bytes_in(disk, str(where))) as told:
                report.progress = told
                verify_path(disk, str(where), report)
        else:
            verify_file(disk, str(where), report)
    except UnknownFile as error:
        raise CommandError(str(error), EXIT_USAGE) from None
    return report


def _holds_log(where: Path) -> bool:
    """Return whether a directory is a log directory, or a partition's directory in one."""
    marks = ("*.log", "meta.properties", "*-offset-checkpoint", "partition.metadata")
    inside = ("*-[0-9]*/*.log", "*-[0-9]*/partition.metadata")
    return any(next(where.glob(mark), None) is not None for mark in (*marks, *inside))


def _print(path: Path, report: Report) -> None:
    for finding in report.findings:
        word = "damaged" if finding.damage else "remark"
        print_line(f"{word}: {finding.path}: {finding.text}")
    if report.live:
        note(f"headrace: {_LIVE}")
    wrong = sum(finding.damage for finding in report.findings)
    if wrong:
        advice = f"stop the broker, then see: headrace log repair {path} --dry-run"
        print_line(f"{wrong} damaged of {sums(report)}; {advice}")
    elif report.unchecked:
        print_line(
            f"no damage found in what was read: {sums(report)}; not checked:"
            f" {counted(report.unchecked, 'byte')} at the ends of active segments, not flushed"
            " yet"
        )
    else:
        print_line(f"sound: {sums(report)}")


def _print_json(where: Path, report: Report) -> None:
    print_json(
        {
            "path": str(where),
            "sound": report.sound,
            "live": report.live,
            "partitions": report.partitions,
            "segments": report.segments,
            "batches": report.batches,
            "records": report.records,
            "bytes": report.bytes,
            "unchecked_bytes": report.unchecked,
            "findings": [
                {
                    "damage": finding.damage,
                    "kind": finding.kind.value,
                    "path": finding.path,
                    "text": finding.text,
                }
                for finding in report.findings
            ],
        }
    )
