"""`headrace log repair`: repair a stopped broker's log directory."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from headrace.cli.log.tools import existing, progress
from headrace.log import file_names
from headrace.log.file_names import parse_directory
from headrace.logtools.repair import Mending, repair_directory
from headrace.logtools.verify import Report
from headrace.logtools.verify.directory import bytes_in, is_log_directory
from headrace.posix.disk import RealDisk
from headrace.terminal.failure import EXIT_FAILED, EXIT_USAGE, CommandError
from headrace.terminal.output import print_line


def repair(
    path: Annotated[Path, Parameter(help="A log directory, or a partition's directory in it.")],
    *,
    truncate: Annotated[
        bool,
        Parameter(
            help="Truncate a log before its first bad batch; the removed records are reported."
        ),
    ] = False,
    dry_run: Annotated[bool, Parameter(help="Only print what would be done.")] = False,
) -> int | None:
    """Repair the log directory of a stopped broker.

    Rebuilds indexes, aborted transactions, producer snapshots and epochs from the log. A segment
    with a bad batch is renamed (`….log.damaged`) and rewritten without that batch: nothing is
    deleted without --truncate. Exits with 0 if everything is sound afterwards, and with 1 if
    records are lost.
    """
    where = existing(path, "directory")
    if not where.is_dir():
        raise CommandError(f"{path}: not a directory; pass one of log.dirs", EXIT_USAGE)
    disk, directory, only = RealDisk(None), where, None
    if not is_log_directory(disk, str(where)):
        only, directory = parse_directory(where.name), where.parent
        if only is None or not is_log_directory(disk, str(directory)):
            raise CommandError(
                f"{path}: neither a log directory nor a partition's; pass one of log.dirs",
                EXIT_USAGE,
            )
    mending = Mending(disk, truncate=truncate, dry_run=dry_run, say=print_line)
    try:
        unlock = disk.lock(str(directory / file_names.LOCK))
    except BlockingIOError as held:
        raise CommandError(
            f"{directory}: a broker is running on it ({held.strerror}); stop it first"
        ) from None
    try:
        report = Report()
        with progress("checking", bytes_in(disk, str(where))) as told:
            report.progress = told
            repair_directory(mending, str(directory), only, report)
    finally:
        unlock()
    return _conclude(path, mending, report)


def _conclude(path: Path, mending: Mending, report: Report) -> int | None:
    if not mending.steps and not mending.unmended:
        print_line("nothing to repair" if report.sound else "nothing that repair can fix")
        return None if report.sound else EXIT_FAILED
    if mending.dry_run:
        print_line(f"{len(mending.steps)} steps to take; nothing was changed")
        return EXIT_FAILED
    print_line(f"{len(mending.steps)} steps taken; check with: headrace log verify {path}")
    return EXIT_FAILED if mending.unmended else None
