"""`headrace pipeline run`: run a declared pipeline until it is stopped, or for what there is."""

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from headrace.pipeline.commands.projects import ProjectProfile, cluster_of, project_in
from headrace.pipeline.commands.run_lines import lines_of_event
from headrace.terminal.broker_options import BrokerOptions, Json
from headrace.terminal.failure import (
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    CommandError,
    UsageError,
    check_installed,
)
from headrace.terminal.output import is_terminal, print_json, print_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from headrace.pipeline.project import Project

    Show = Callable[[Mapping[str, Any]], None]


def run(
    directory: Path = Path(),
    *,
    profile: ProjectProfile = None,
    once: Annotated[bool, Parameter(help="Process the records that there are, then end.")] = False,
    until_idle: Annotated[
        bool, Parameter(help="End when no flow has had a new record for longer than its trigger.")
    ] = False,
    json: Json = False,
    options: BrokerOptions | None = None,
) -> int:
    """Run a pipeline until it is stopped by Ctrl-C, SIGTERM or headrace pipeline stop.

    Each flow is a streaming query with a checkpoint; each batch is in its table or topic once,
    however often a run is killed and started again. Brokers that are away and lost workers
    are waited for. For example: headrace pipeline run shop; headrace pipeline run shop -p prod
    --once

    Exit codes: 0 done or stopped, 1 failed, 2 wrong declarations, 3 no broker answers (only
    with --once and --until-idle), 4 no pipeline or topic, 11 a check failed or records
    were refused, 12 records were deleted before they were read, 13 another run holds the pipeline.

    Parameters
    ----------
    directory
        The project's directory, which has pipeline.toml.
    """
    if once and until_idle:
        raise UsageError("--once and --until-idle cannot be combined")
    check_installed("pyspark", "pyarrow")
    project = project_in(directory, profile)
    chosen = cluster_of(options or BrokerOptions(), project)

    from headrace.pipeline.declarations import DeclarationError
    from headrace.pipeline.exit_codes import HELD
    from headrace.pipeline.run.lock import HeldError
    from headrace.pipeline.run.runner import RunRequest, run_pipeline
    from headrace.pipeline.run.supervisor import Mode

    mode = Mode.ONCE if once else Mode.UNTIL_IDLE if until_idle else Mode.CONTINUOUS

    try:
        with _shown(project, json) as show:
            request = RunRequest(project, chosen.bootstrap, chosen.settings, mode, show)
            ending = run_pipeline(request)
    except HeldError as error:
        raise CommandError(str(error), HELD) from None
    except DeclarationError as error:
        raise CommandError(str(error), EXIT_USAGE) from None
    if ending.code and ending.code != EXIT_INTERRUPTED:
        raise CommandError(ending.text, ending.code)
    return ending.code


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
