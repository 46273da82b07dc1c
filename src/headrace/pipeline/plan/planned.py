"""The plan of a project: what each flow's definition means for its checkpoint and target."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.pipeline.checked import checking_session
from headrace.pipeline.load import Finding, loaded
from headrace.pipeline.plan.applied import read_applied
from headrace.pipeline.plan.code_digest import code_digest
from headrace.pipeline.plan.compare import Comparison, Verdict, compare
from headrace.pipeline.plan.prints import prints_of
from headrace.pipeline.validate import findings_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from headrace.pipeline.graph import Place
    from headrace.pipeline.plan.applied import Applied
    from headrace.pipeline.plan.flow_print import FlowPrint, PrintedTarget
    from headrace.pipeline.project import Project
    from headrace.pipeline.run.storage import Storage

ACCEPT, NEW_VERSION = "accept", "new-version"


@dataclass(frozen=True)
class PlannedFlow:
    """A flow with the verdict on its definition."""

    name: str
    target: PrintedTarget
    comparison: Comparison
    place: Place | None
    """Place of its function; None for a flow that is gone."""

    @property
    def choices(self) -> tuple[str, ...]:
        """The decisions by which a run starts; none if it starts without one."""
        match self.comparison.verdict:
            case Verdict.MEANING:
                return (ACCEPT, NEW_VERSION)
            case Verdict.INCOMPATIBLE:
                return (NEW_VERSION,)
            case _:
                return ()


@dataclass(frozen=True)
class ProjectPlan:
    """The plan of a project's flows into tables and sinks."""

    pipeline: str
    flows: tuple[PlannedFlow, ...]
    applied: Applied
    """The definitions that the plan was compared with."""
    code: str
    """Digest of the code that it was made from."""
    prints: Mapping[str, FlowPrint] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    """Errors of the declarations; with any, no flow is planned."""

    @property
    def differing(self) -> int:
        """The number of flows whose verdict is not `same`."""
        return sum(flow.comparison.verdict is not Verdict.SAME for flow in self.flows)

    @property
    def refused(self) -> tuple[PlannedFlow, ...]:
        """The flows that need a decision before a run."""
        return tuple(flow for flow in self.flows if flow.choices)

    def to_json(self) -> dict[str, Any]:
        """Return the plan for `--json`."""
        return {
            "pipeline": self.pipeline,
            "differing": self.differing,
            "flows": [
                {
                    "flow": flow.name,
                    "target": flow.target.name,
                    "verdict": flow.comparison.verdict.value,
                    "differences": list(flow.comparison.differences),
                    "file": flow.place and flow.place.file,
                    "line": flow.place and flow.place.line,
                    "choices": list(flow.choices),
                }
                for flow in self.flows
            ],
        }


def plan_of(
    project: Project,
    storage: Storage,
    spark: SparkSession | None = None,
    scratch: Path | None = None,
) -> ProjectPlan:
    """Plan a project's flows. Writes nothing. DeclarationError for a damaged `applied.json`.

    `spark`: a session to use; None: one is started if the project's code is not that of the last
    start. `scratch`: a directory that its executors see, for temporary files.
    """
    applied = read_applied(storage.applied)
    code = code_digest(project)
    if applied.code == code:
        return _unchanged(project, storage, applied)
    with ExitStack() as stack:
        if spark is None:
            spark = stack.enter_context(checking_session(project, "plan"))
        found = stack.enter_context(loaded(project))
        findings, _ = findings_of(spark, found)
        if findings:
            return ProjectPlan(project.name, (), applied, code, findings=tuple(findings))
        prints = prints_of(spark, found, scratch)
        places = {flow.name: flow.place for flow in found.graph.flows}
    return ProjectPlan(
        project.name, planned_flows(prints, places, applied, storage), applied, code, prints
    )


def _unchanged(project: Project, storage: Storage, applied: Applied) -> ProjectPlan:
    prints = {name: flow.print for name, flow in (applied.flows or {}).items() if flow.active}
    return ProjectPlan(
        project.name, planned_flows(prints, {}, applied, storage), applied, applied.code, prints
    )


def planned_flows(
    prints: Mapping[str, FlowPrint],
    places: Mapping[str, Place],
    applied: Applied,
    storage: Storage,
) -> tuple[PlannedFlow, ...]:
    """Compare the prints of a project's flows with those of its last start."""
    known = applied.flows or {}
    there = [
        PlannedFlow(
            name, each.target, _verdict(name, each, prints, applied, storage), places.get(name)
        )
        for name, each in prints.items()
    ]
    gone = [
        PlannedFlow(
            name,
            flow.print.target,
            Comparison(Verdict.GONE, (f"its checkpoint and {flow.print.target.name} stay",)),
            None,
        )
        for name, flow in known.items()
        if flow.active and name not in prints
    ]
    return (*there, *gone)


def _verdict(
    name: str,
    now: FlowPrint,
    prints: Mapping[str, FlowPrint],
    applied: Applied,
    storage: Storage,
) -> Comparison:
    started = has_started(storage.checkpoint(now.target.name, name))
    known = applied.get(name)
    if known is not None:
        found = compare(known.print, now)
        # Without a checkpoint, a run goes on after the last batch that the table has.
        wrote = started or (now.target.kind == "table" and storage.table(now.target.name).is_dir())
        differs = found.verdict in (Verdict.INCOMPATIBLE, Verdict.MEANING)
        return found if started or (wrote and differs) else _new(now)
    if started:
        return Comparison(
            Verdict.MEANING, ("it has a checkpoint, and the definition that wrote it is unknown",)
        )
    for other, flow in (applied.flows or {}).items():
        if other not in prints and flow.print.target.name == now.target.name:
            reads = f"{name} begins at the earliest records and writes them to {now.target.name}"
            return Comparison(Verdict.MEANING, (f"flow {other} is gone: {reads}, too",))
    return _new(now)


def _new(now: FlowPrint) -> Comparison:
    topics = ", ".join(dict.fromkeys(source.topic for source in now.sources))
    return Comparison(Verdict.NEW, (f"starts at the earliest records of {topics}",))


def has_started(checkpoint: Path) -> bool:
    """Return whether a query has used a checkpoint."""
    return checkpoint.is_dir() and any(checkpoint.iterdir())
