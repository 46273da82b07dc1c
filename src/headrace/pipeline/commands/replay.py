"""`headrace pipeline replay`: compute days of a table again, and put them in the table's place."""

import time
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from cyclopts import Parameter

from headrace.pipeline.commands.diff import On
from headrace.pipeline.commands.diff_lines import decision_line, diff_lines, done_line
from headrace.pipeline.commands.projects import (
    ProjectDirectory,
    ProjectProfile,
    cluster_of,
    given_words,
    project_in,
    with_cluster,
)
from headrace.pipeline.commands.replay_errors import replay_exit_codes
from headrace.terminal.broker_options import BrokerOptions, Json
from headrace.terminal.failure import (
    EXIT_UNREACHABLE,
    CommandError,
    UsageError,
    check_installed,
)
from headrace.terminal.offset_positions import span_ms
from headrace.terminal.output import counted, note, print_json, print_line

if TYPE_CHECKING:
    from headrace.pipeline.project import Project
    from headrace.pipeline.replays.build import ReplayRequest
    from headrace.pipeline.replays.covered_records import CoveredRecords
    from headrace.pipeline.replays.replay import Replay
    from headrace.pipeline.replays.replay_store import ReplayStore


class _Days(NamedTuple):
    """The options of a new replay."""

    first: str | None
    end: str | None
    slack: str | None
    on: tuple[str, ...]


def replay(
    flow: str,
    *,
    directory: ProjectDirectory = Path(),
    profile: ProjectProfile = None,
    first: Annotated[str | None, Parameter("--from", help="The first day, in UTC.")] = None,
    end: Annotated[str | None, Parameter("--to", help="The day after the last one.")] = None,
    slack: Annotated[
        str | None,
        Parameter(help="How much earlier than the first day its records may be, such as 2h."),
    ] = None,
    on: On = (),
    apply: Annotated[str | None, Parameter(help="Put this replay in place of its rows.")] = None,
    discard: Annotated[str | None, Parameter(help="Delete this replay.")] = None,
    undo: Annotated[str | None, Parameter(help="Put back the rows that it replaced.")] = None,
    json: Json = False,
    options: BrokerOptions | None = None,
) -> int:
    """Compute days of a Delta table again, beside it; compare both; then apply it or discard it.

    The flow's function runs as a batch over the topic's records up to the table's last batch. Live
    batches go on, and their rows stay. Without --from and --to the whole table is computed. For
    example: headrace pipeline replay orders --from 2026-11-24 --to 2026-11-25; headrace pipeline
    replay orders --apply r3

    Exit codes: 0 done, 1 failed, 2 wrong declarations or days, 3 no broker answers, 4 no such
    flow or replay, 10 the table has changed since the comparison, 11 a check failed, 12 records
    that it needs were deleted.

    Parameters
    ----------
    flow
        The flow, which writes a Delta table.
    """
    steps = {"apply": apply, "discard": discard, "undo": undo}
    given = {name: id_ for name, id_ in steps.items() if id_ is not None}
    days = _Days(first, end, slack, on)
    if len(given) > 1:
        raise UsageError(f"{' and '.join(f'--{name}' for name in given)} cannot be combined")
    if given and any(days):
        raise UsageError("--from, --to, --slack and --on belong to a new replay")
    check_installed("pyspark", "pyarrow", "deltalake", "duckdb")
    project = project_in(directory, profile)
    with replay_exit_codes():
        if given:
            ((step, id_),) = given.items()
            done = _done(project, flow, step, id_, options or BrokerOptions())
        else:
            done = _built(project, flow, days, options or BrokerOptions())
    if json:
        print_json(_json(done))
    else:
        for line in _lines(done, given_words(directory, profile), built=not given):
            print_line(line)
    return 0


def _built(project: "Project", flow: str, days: _Days, options: BrokerOptions) -> "Replay":
    from headrace.pipeline.replays.build import build_replay

    return build_replay(_request(project, flow, days, options), note)


def _request(project: "Project", flow: str, days: _Days, options: BrokerOptions) -> "ReplayRequest":
    from headrace.pipeline.replays.build import ReplayRequest

    slack_ms = None if days.slack is None else span_ms(days.slack)
    if days.slack is not None and slack_ms is None:
        raise UsageError(f"--slack {days.slack}: must be as 2h, 30m or 1d")
    first, end = _day("--from", days.first), _day("--to", days.end)
    chosen = cluster_of(options, project)
    return ReplayRequest(
        project, chosen.bootstrap, chosen.settings, flow, first, end, slack_ms, days.on
    )


def _day(option: str, text: str | None) -> date | None:
    if text is None:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{option} {text}: must be a day, as 2026-11-24") from None


def _done(project: "Project", flow: str, step: str, id_: str, options: BrokerOptions) -> "Replay":
    """Do a step of a replay. CommandError if the brokers with the quarantine are away."""
    from headrace.client.transport.port import ClientError
    from headrace.model.errors import ApiError
    from headrace.pipeline.replays.covered_records import CoveredRecords
    from headrace.pipeline.replays.replay_store import ReplayStore
    from headrace.pipeline.run.storage import Storage

    storage = Storage.of(project)
    store = ReplayStore(storage.root)
    found = store.load(id_, flow)
    notes = CoveredRecords(with_cluster(options, project).client, project.identity, storage)
    try:
        done = _step(store, found, step, notes)
    except (ApiError, ClientError) as error:
        raise CommandError(
            f"{found.table}: --{step} {id_} is not completed, because its records in the "
            f"quarantine are not noted: {error}; run the command again, or start the pipeline, "
            "which completes it",
            EXIT_UNREACHABLE,
        ) from None
    _show_notes(notes)
    if done == found:
        note(f"{found.id} is {found.state.value} already: nothing was changed")
    return done


def _step(store: "ReplayStore", found: "Replay", step: str, notes: "CoveredRecords") -> "Replay":
    from headrace.pipeline.replays.replay import OutdatedDiffError
    from headrace.pipeline.replays.steps import apply_replay, discard_replay, undo_replay

    match step:
        case "undo":
            return undo_replay(store, found.id, notes)
        case "discard":
            return discard_replay(store, found.id)
    try:
        return apply_replay(store, found.id, int(time.time() * 1000), notes)
    except OutdatedDiffError as error:
        if error.diff is not None:
            for line in diff_lines(found, error.diff):
                note(line)
        raise


def _show_notes(notes: "CoveredRecords") -> None:
    for count, state in ((notes.covered, "in the table now"), (notes.waiting, "waiting again")):
        if count:
            note(f"quarantine: {counted(count, 'record')} {state}")


def _lines(done: "Replay", given: str, *, built: bool) -> list[str]:
    if not built or done.diff is None:
        return [done_line(done, datetime.now(UTC), given)]
    return [*diff_lines(done, done.diff), decision_line(done, given)]


def _json(done: "Replay") -> dict[str, Any]:
    diff = None if done.diff is None else done.diff.to_json()
    days = done.range and {"from": done.range.first, "to": done.range.end}
    return {
        "replay": done.id,
        "flow": done.flow,
        "table": done.table,
        "state": done.state.value,
        "days": days,
        "version": done.version,
        "offsets": done.offsets,
        "applied_version": done.applied_version,
        "diff": diff,
    }
