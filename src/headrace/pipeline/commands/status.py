"""`headrace pipeline status`: what runs, what has failed, how far it is."""

from pathlib import Path
from typing import TYPE_CHECKING

from headrace.pipeline.commands.projects import ProjectProfile, project_in, storages_of
from headrace.pipeline.commands.unknown_keys import unknown_keys_text
from headrace.terminal.broker_options import Json
from headrace.terminal.failure import EXIT_FAILED, check_installed
from headrace.terminal.output import counted, print_json, print_line

if TYPE_CHECKING:
    from headrace.pipeline.run.run_status import FlowState, RunState


def status(directory: Path = Path(), *, profile: ProjectProfile = None, json: Json = False) -> int:
    """Show the newest run of a pipeline with each profile: its state, its lag, its errors.

    It reads the event log and the lock in the storage, also those of a run on another machine with
    the same disk, and needs neither a broker nor Spark. Exit codes: 0 well, 1 a run has failed or
    was killed, 4 no pipeline. For example: headrace pipeline status shop; headrace pipeline status
    shop -p prod --json

    Parameters
    ----------
    directory
        The project's directory, which has pipeline.toml.
    """
    check_installed("pyspark", "pyarrow")
    from headrace.pipeline.run.run_status import state_of

    states = [
        state_of(project.name, project.profile, storage)
        for project, storage in storages_of(project_in(directory, profile))
    ]
    if json:
        print_json([state.to_json() for state in states])
    else:
        for state in states:
            _print(state)
    return EXIT_FAILED if any(state.is_bad for state in states) else 0


def _print(state: "RunState") -> None:
    from headrace.pipeline.run.run_status import KILLED, NEVER, RUNNING, seconds_since

    name = state.pipeline if state.profile is None else f"{state.pipeline} {state.profile}"
    if state.state == NEVER:
        print_line(f"{name}  never run")
        return
    lag = "" if state.lag is None else f"  lag {state.lag:,}"
    if state.state == RUNNING:
        age = _age(seconds_since(state.started_at))
        print_line(f"{name}  running {age} on {state.host} (pid {state.pid}){lag}")
    else:
        age = _age(seconds_since(state.seen_at))
        code = "" if state.code is None else f" (exit {state.code})"
        why, lag = state.text, lag and f"{lag} at its last batch"
        if state.state == KILLED:
            why = "no end in its event log; headrace pipeline run goes on where it was"
        shown = state.state.upper() if state.is_bad else state.state
        print_line(f"{name}  {shown} {age} ago{code}: {why}{lag}")
    for flow, at in state.flows.items():
        print_line(f"  {flow}  {_of_flow(at)}")


def _of_flow(flow: "FlowState") -> str:
    from headrace.pipeline.run.run_status import seconds_since

    parts = [flow.state if flow.text is None else f"{flow.state}: {flow.text}"]
    if flow.batch is not None:
        age = _age(seconds_since(flow.last_batch_at))
        parts.append(f"batch {flow.batch} {age} ago, {counted(flow.read, 'record')} in this run")
    if flow.refused:
        parts.append(f"{flow.refused:,} refused")
    if flow.late:
        parts.append(f"{flow.late:,} late")
    if flow.restarts:
        parts.append(counted(flow.restarts, "restart"))
    if flow.failures:
        end = "" if flow.failures_max is None else f" (at {flow.failures_max} the run ends)"
        parts.append(f"{counted(flow.failures, 'error')} without a finished batch{end}")
    if flow.unknown_keys:
        parts.append(unknown_keys_text(flow.unknown_keys))
    parts += [f"check {name!r}: stale since {since}" for name, since in flow.stale.items()]
    parts += [f"check {name!r}: {count:,} failed" for name, count in flow.failed_checks.items()]
    return ", ".join(parts)


def _age(seconds: float | None) -> str:
    if seconds is None:
        return "?"
    whole = max(0, int(seconds))
    return f"{whole // 3600:02}:{whole % 3600 // 60:02}:{whole % 60:02}"
