"""`headrace pipeline plan`: compare a pipeline's definitions with those of its checkpoints."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from headrace.pipeline.commands.projects import ProjectProfile, project_in, with_cluster
from headrace.terminal.broker_options import BrokerOptions, Json
from headrace.terminal.failure import (
    EXIT_NOT_FOUND,
    EXIT_USAGE,
    CommandError,
    UsageError,
    check_installed,
)
from headrace.terminal.output import print_json, print_line

if TYPE_CHECKING:
    from headrace.pipeline.plan.begin_records import BeginRecords
    from headrace.pipeline.plan.planned import PlannedFlow, ProjectPlan
    from headrace.pipeline.project import Project
    from headrace.pipeline.run.storage import Storage

_BROKER_SECONDS = 3.0
"""How long a plan waits for brokers, which it does not need."""


def plan(
    directory: Path = Path(),
    *,
    profile: ProjectProfile = None,
    accept: Annotated[str | None, Parameter(help="Continue this flow as it is now.")] = None,
    new_version: Annotated[
        str | None, Parameter(help="Compute this flow's table again, next to the old one.")
    ] = None,
    json: Json = False,
    options: BrokerOptions | None = None,
) -> int:
    """Compare a pipeline's flows with the definitions that wrote their checkpoints.

    Nothing is started or changed. A broker is asked only how many records a new flow begins with;
    if none answers, the number is unknown. A flow whose meaning changes, or whose
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

    storage = Storage.of(project)
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
    records, words = _records(found, with_cluster(options or BrokerOptions(), project))
    if json:
        print_json(_json(found, records))
    else:
        for line in lines_of(found, project.directory, storage, words):
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


def _records(
    plan: "ProjectPlan", options: BrokerOptions
) -> "tuple[dict[str, BeginRecords], dict[str, str]]":
    """Return the records that new flows begin with, if they are known, and words about them."""
    from headrace.client.transport.port import ClientError
    from headrace.model.errors import ApiError
    from headrace.pipeline.plan.begin_records import BeginRecords, count_records, new_topics

    flows = new_topics(plan)
    topics = {topic for names in flows.values() for topic in names}
    if not topics:
        return {}, {}
    try:
        with options.client(retry_seconds=_BROKER_SECONDS) as client:
            counts = count_records(client, topics)
    except (ClientError, ApiError, CommandError) as error:
        return {}, dict.fromkeys(flows, f"how many is unknown: {error}")
    records = {
        flow: BeginRecords({topic: counts[topic] for topic in names})
        for flow, names in flows.items()
    }
    return records, {flow: each.text for flow, each in records.items()}


def _json(plan: "ProjectPlan", records: "Mapping[str, BeginRecords]") -> dict[str, Any]:
    found = plan.to_json()
    for flow in found["flows"]:
        begin = records.get(flow["flow"])
        flow["begin_records"] = None if begin is None else begin.topics
    return found


def lines_of(
    plan: "ProjectPlan", directory: Path, storage: "Storage", records: Mapping[str, str]
) -> Iterator[str]:
    """Yield the lines of a plan. `records`: words about the records that new flows begin with."""
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
        begin = f": {records[flow.name]}" if flow.name in records else ""
        sentence = f"{flow.comparison.sentence}{begin}"
        yield f"{flow.name:<{width}}  {word:<10}  {sentence}{place}".rstrip()
        if flow.choices:
            yield from (f"{' ' * width}  {line}" for line in _choices(flow, storage))
    if plan.differing:
        new = sum(flow.comparison.verdict is Verdict.NEW for flow in plan.flows)
        to_decide = len(plan.refused)
        counts = {"to decide": to_decide, "new": new, "to note": plan.differing - to_decide - new}
        known = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
        decision = "" if to_decide else "nothing to decide, the next run goes on: "
        yield f"{decision}{known}; nothing was started"


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
