"""Decisions on changed flows, and whether a run may start without one."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headrace.model.errors import HeadraceError
from headrace.pipeline.plan.applied import write_applied
from headrace.pipeline.plan.compare import Verdict
from headrace.pipeline.plan.planned import ACCEPT, has_started, plan_of
from headrace.pipeline.plan.prints import SCRATCH
from headrace.pipeline.run.event_log import now_text
from headrace.pipeline.run.lock import Holder, held

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from headrace.pipeline.plan.planned import PlannedFlow, ProjectPlan
    from headrace.pipeline.project import Project
    from headrace.pipeline.run.storage import Storage


class DecisionError(HeadraceError):
    """A decision that does not apply to a flow; the text says why."""


class UnknownFlowError(DecisionError):
    """The pipeline has no flow of that name."""


def refusal_of(project: Project, storage: Storage, spark: SparkSession) -> str | None:
    """Return why a run may not start, in one line; None if it may.

    The caller holds the pipeline's lock. If the run may start, its definitions are stored as
    applied, so call it before the first query starts. With the code of the last start it takes no
    time; otherwise 1 to 10 s for each flow. Projects with errors are not refused: the run reports
    the errors. DeclarationError for a damaged `applied.json`; OSError.
    """
    for left in storage.own.glob(f"{SCRATCH}*"):  # of a start that was killed
        shutil.rmtree(left, ignore_errors=True)
    plan = plan_of(project, storage, spark, storage.own)
    if plan.findings:
        return None
    if plan.refused:
        return refusal_text(plan, project)
    started = plan.applied.started(plan.code, plan.prints)
    if started != plan.applied:
        write_applied(storage.applied, started)
    return None


def refusal_text(plan: ProjectPlan, project: Project) -> str:
    """Return the flows that need a decision, in one line."""
    flows = "; ".join(f"{flow.name}: {flow.comparison.sentence}" for flow in plan.refused)
    profile = "" if project.profile is None else f" -p {project.profile}"
    command = f"headrace pipeline plan {shlex.quote(str(project.directory))}{profile}"
    return f"{flows}: decide with `{command}`; no query was started"


def accept(
    project: Project, storage: Storage, flow: str, spark: SparkSession | None = None
) -> PlannedFlow:
    """Let a flow continue with its checkpoint and its changed definition.

    `spark`: as for `plan_of`. DecisionError if the flow has nothing to accept; HeldError while a
    run holds the pipeline.
    """
    with _held(storage):
        plan = plan_of(project, storage, spark)
        planned = _flow(plan, flow)
        if ACCEPT not in planned.choices:
            reason = planned.comparison.sentence or "nothing changed"
            raise DecisionError(
                f"{flow} is {planned.comparison.verdict.value} ({reason}): there is nothing to "
                "accept" + ("; choose --new-version" if planned.choices else "")
            )
        write_applied(storage.applied, plan.applied.accepted({flow: plan.prints[flow]}))
        return planned


def new_version(
    project: Project, storage: Storage, flow: str, spark: SparkSession | None = None
) -> tuple[str, ...]:
    """Give a flow's target a new version: its flows begin at the earliest records again.

    Returns the names of these flows. The earlier version's table and checkpoints stay.
    DecisionError if no flow of the target has a checkpoint; HeldError while a run holds the
    pipeline; OSError.
    """
    with _held(storage):
        plan = plan_of(project, storage, spark)
        planned = _flow(plan, flow)
        if planned.comparison.verdict is Verdict.GONE:
            raise DecisionError(f"{flow} is not declared any more: there is nothing to compute")
        target = planned.target.name
        names = tuple(each for each in plan.prints if plan.prints[each].target.name == target)
        if not any(has_started(storage.checkpoint(target, each)) for each in names):
            raise DecisionError(f"{flow} has no checkpoint: a run begins at the earliest records")
        number = storage.version(target) + 1
        for name in names:
            storage.checkpoint_of(target, name, number).mkdir(parents=True)
        prints = {name: plan.prints[name] for name in names}
        write_applied(storage.applied, plan.applied.accepted(prints))
        return names


def _flow(plan: ProjectPlan, name: str) -> PlannedFlow:
    if plan.findings:
        raise DecisionError(f"the project has errors: {plan.findings[0]}")
    for flow in plan.flows:
        if flow.name == name:
            return flow
    known = ", ".join(flow.name for flow in plan.flows) or "none"
    raise UnknownFlowError(f"{plan.pipeline} has no flow {name}; its flows: {known}")


@contextmanager
def _held(storage: Storage) -> Iterator[None]:
    """Hold the pipeline, so that no run starts with the definitions of before."""
    with held(storage.lock, Holder("plan", os.getpid(), socket.gethostname(), now_text())):
        yield
