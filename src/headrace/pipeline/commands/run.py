"""`headrace pipeline run`: run a declared pipeline until it is stopped, or for what there is."""

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from headrace.pipeline.commands.dry_lines import print_dry
from headrace.pipeline.commands.projects import (
    ProjectProfile,
    cluster_of,
    project_in,
    with_cluster,
)
from headrace.pipeline.commands.run_lines import lines_of_event
from headrace.terminal.broker_options import BrokerOptions, Json
from headrace.terminal.failure import (
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    CommandError,
    UsageError,
    check_installed,
)
from headrace.terminal.output import is_terminal, note, print_json, print_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from headrace.pipeline.project import Project

    Show = Callable[[Mapping[str, Any]], None]

LAST = 1000
"""Records of each topic that a dry run reads by default."""


def run(
    directory: Path = Path(),
    *,
    profile: ProjectProfile = None,
    once: Annotated[bool, Parameter(help="Process the records that there are, then end.")] = False,
    until_idle: Annotated[
        bool, Parameter(help="End when no flow has had a new record for longer than its trigger.")
    ] = False,
    dry: Annotated[
        bool, Parameter(help="Write nothing; show the rows of the newest records.")
    ] = False,
    last: Annotated[
        int | None, Parameter(help="With --dry: records of each topic, 1,000 without it.")
    ] = None,
    accept_loss: Annotated[
        tuple[str, ...],
        Parameter(help="Flow that goes on without records that were deleted unread."),
    ] = (),
    json: Json = False,
    options: BrokerOptions | None = None,
) -> int:
    """Run a pipeline until it is stopped by Ctrl-C, SIGTERM or headrace pipeline stop.

    Each flow is a streaming query with a checkpoint; each batch is in its table or topic once,
    however often a run is killed and started again. Brokers that are away and lost workers
    are waited for. With --dry the newest records of each topic go through the flows, and their
    first rows, refused records and failed checks are printed; no table, topic, checkpoint or
    consumer group is written. For example: headrace pipeline run shop; headrace pipeline run shop
    -p prod --once; headrace pipeline run shop --dry --last 100

    Exit codes: 0 done or stopped, 1 failed, 2 wrong declarations, 3 no broker answers (only
    with --once and --until-idle), 4 no pipeline or topic, 10 a changed flow needs a decision
    (headrace pipeline plan), 11 a check failed or too many records were refused, 12 records were
    deleted before they were read, 13 another run holds the pipeline, 130 interrupted.

    Parameters
    ----------
    directory
        The project's directory, which has pipeline.toml.
    """
    if once and until_idle:
        raise UsageError("--once and --until-idle cannot be combined")
    if dry and (once or until_idle):
        raise UsageError("--dry ends by itself: leave --once and --until-idle out")
    if dry and accept_loss:
        raise UsageError("--dry reads the newest records: leave --accept-loss out")
    if last is not None and not dry:
        raise UsageError("--last belongs to --dry")
    check_installed("pyspark", "pyarrow")
    project = project_in(directory, profile)
    if dry:
        return _dry(project, options or BrokerOptions(), LAST if last is None else last, json)
    mode = "once" if once else "until-idle" if until_idle else "continuous"
    return _run(project, options or BrokerOptions(), mode, frozenset(accept_loss), json)


def _run(
    project: "Project", options: BrokerOptions, mode: str, accept_loss: frozenset[str], json: bool
) -> int:
    chosen = cluster_of(options, project)

    from headrace.pipeline.declarations import DeclarationError
    from headrace.pipeline.exit_codes import HELD
    from headrace.pipeline.run.lock import HeldError
    from headrace.pipeline.run.runner import RunRequest, run_pipeline
    from headrace.pipeline.run.storage import Storage
    from headrace.pipeline.run.supervisor import Mode

    try:
        with _shown(project, json) as show:
            request = RunRequest(
                project, chosen.bootstrap, chosen.settings, Mode(mode), show, accept_loss
            )
            ending = run_pipeline(request)
    except HeldError as error:
        raise CommandError(str(error), HELD) from None
    except DeclarationError as error:
        raise CommandError(str(error), EXIT_USAGE) from None
    if ending.code and ending.code != EXIT_INTERRUPTED:
        raise CommandError(ending.text, ending.code)
    if not json:
        for name, path in Storage.of(project).tables().items():
            print_line(f"  table {name}: {path}")
    return ending.code


def _dry(project: "Project", options: BrokerOptions, last: int, json: bool) -> int:
    from headrace.pipeline.declarations import DeclarationError
    from headrace.pipeline.dry.dry_run import RECORDS_MAX, dry_run

    if not 1 <= last <= RECORDS_MAX:
        raise UsageError(f"--last {last}: must be from 1 to {RECORDS_MAX:,}")
    chosen = with_cluster(options, project)
    try:
        result = dry_run(project, chosen.client, last, note)
    except DeclarationError as error:
        raise CommandError(str(error), EXIT_USAGE) from None
    if json:
        print_json(result.to_json())
    else:
        print_dry(result)
    if (failure := result.failure) is not None:
        raise CommandError(failure.text, failure.code)
    return 0


@contextmanager
def _shown(project: "Project", json: bool) -> "Iterator[Show]":
    """Yield the function that shows an event: as JSON, in a view of the terminal, or as a line."""
    if json:
        yield print_json
    elif is_terminal():
        from headrace.pipeline.commands.live_view import LiveView

        with LiveView(project.name, project.profile) as view:
            yield view.take
    else:
        yield _print_event


def _print_event(event: "Mapping[str, Any]") -> None:
    for line in lines_of_event(event):
        print_line(line)
