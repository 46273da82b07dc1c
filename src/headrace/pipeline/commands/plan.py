"""`headrace pipeline plan`: compare a pipeline's definitions with those of its checkpoints."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from headrace.pipeline.commands.projects import ProjectProfile, project_in
from headrace.terminal.broker_options import Json
from headrace.terminal.failure import (
    EXIT_NOT_FOUND,
    EXIT_USAGE,
    CommandError,
    UsageError,
    check_installed,
)
from headrace.terminal.output import print_json, print_line

if TYPE_CHECKING:
    from headrace.pipeline.plan.planned import PlannedFlow, ProjectPlan
    from headrace.pipeline.project import Project
    from headrace.pipeline.run.storage import Storage


def plan(
    directory: Path = Path(),
    *,
    profile: ProjectProfile = None,
    accept: Annotated[str | None, Parameter(help="Continue this flow as it is now.")] = None,
    new_version: Annotated[
        str | None, Parameter(help="Compute this flow's table again, next to the old one.")
    ] = None,
    json: Json = False,
) -> int:
    """Compare a pipeline's flows with the definitions that wrote their checkpoints.

    Nothing is started or changed, and no broker is needed. A flow whose meaning changes, or whose
    checkpoint does not fit, needs a decision before a run starts: --accept FLOW continues from
    here, and --new-version FLOW computes the flow's table again from the earliest records. For
    example: headrace pipeline plan shop; headrace pipeline plan shop --accept revenue

    Exit codes: 0 all flows are the same, 2 wrong declarations, 4 no pipeline or flow, 10 a flow
    differs or is new, 13 a run holds the pipeline (only with a decision).

    Parameters
    ----------
    directory
        The project's directory, which has pipeline.toml.
    """
    if accept is not None and new_version is not None:
        raise UsageError("--accept and --new-version cannot be combined")
    if json and (accept is not None or new_version is not None):
        raise UsageError("--json shows a plan: leave out --accept and --new-version")
    check_installed("pyspark", "pyarrow")
    project = project_in(directory, profile)

    from headrace.pipeline.declarations import DeclarationError
    from headrace.pipeline.exit_codes import DECISION_NEEDED, HELD
    from headrace.pipeline.plan.decisions import DecisionError, UnknownFlowError
    from headrace.pipeline.plan.planned import plan_of
    from headrace.pipeline.run.lock import HeldError
    from headrace.pipeline.run.storage import Storage
    from headrace.spark.tables.options import local_path

    storage = Storage(local_path("storage", str(project.storage)))
    try:
        if accept is not None or new_version is not None:
            return _decide(project, storage, accept, new_version)
        found = plan_of(project, storage)
    except HeldError as error:
        raise CommandError(str(error), HELD) from None
    except UnknownFlowError as error:
        raise CommandError(str(error), EXIT_NOT_FOUND) from None
    except (DecisionError, DeclarationError) as error:
        raise CommandError(str(error), EXIT_USAGE) from None
    if found.findings:
        raise CommandError("\n".join(map(str, found.findings)), EXIT_USAGE)
    if json:
        print_json(found.to_json())
    else:
        for line in lines_of(found, project.directory, storage):
            print_line(line)
    return DECISION_NEEDED if found.differing else 0


def _decide(
    project: "Project", storage: "Storage", accepted: str | None, renewed: str | None
) -> int:
    from headrace.pipeline.plan.decisions import accept, new_version

    if accepted is not None:
        flow = accept(project, storage, accepted)
        print_line(f"{flow.name}: accepted: {flow.comparison.sentence}")
    elif renewed is not None:
        names = ", ".join(new_version(project, storage, renewed))
        print_line(f"{names}: the next run begins at the earliest records, in a new version")
    return 0


def lines_of(plan: "ProjectPlan", directory: Path, storage: "Storage") -> Iterator[str]:
    """Yield the lines of a plan."""
    from headrace.pipeline.plan.compare import Verdict

    words = {
        Verdict.MEANING: "CHANGED",
        Verdict.INCOMPATIBLE: "REFUSED",
        Verdict.NEW: "NEW",
        Verdict.GONE: "GONE",
    }
    width = max((len(flow.name) for flow in plan.flows), default=0)
    for flow in plan.flows:
        verdict = flow.comparison.verdict
        word = words.get(verdict, verdict.value)
        place = "" if flow.place is None or not flow.choices else f"  {_place(flow, directory)}"
        yield f"{flow.name:<{width}}  {word:<10}  {flow.comparison.sentence}{place}".rstrip()
        if flow.choices:
            yield from (f"{' ' * width}  {line}" for line in _choices(flow, storage))
    count = plan.differing
    if count:
        yield f"{count} to decide, create or note; nothing was started"


def _place(flow: "PlannedFlow", directory: Path) -> str:
    return str(flow.place).removeprefix(f"{directory}/")


def _choices(flow: "PlannedFlow", storage: "Storage") -> Iterator[str]:
    target = flow.target
    width = len(f"--new-version {flow.name}")
    if "accept" in flow.choices:
        yield "Spark would continue with this checkpoint and mix both meanings. Choose:"
        choice = f"--accept {flow.name}"
        yield f"  {choice:<{width}}  continue from here; earlier rows keep the old meaning"
    else:
        yield "This checkpoint or table cannot be continued. Choose:"
    if target.kind == "table":
        fresh = storage.table_of(target.name, storage.version(target.name) + 1).name
        now = storage.table(target.name).name
        what = f"compute {fresh} from the earliest records; {now} stays as it is"
    else:
        what = f"send all records again, from the earliest, to topic {target.format}"
    yield f"  --new-version {flow.name}  {what}"
