"""`headrace pipeline diff`: compare a replay with the rows that it replaces."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from headrace.pipeline.commands.diff_lines import diff_lines
from headrace.pipeline.commands.projects import ProjectDirectory, ProjectProfile, project_in
from headrace.pipeline.commands.replay_errors import replay_exit_codes
from headrace.terminal.broker_options import Json
from headrace.terminal.failure import UsageError, check_installed
from headrace.terminal.output import print_json, print_line

On = Annotated[
    tuple[str, ...], Parameter(negative=(), help="A column that identifies a row; repeatable.")
]


def diff(
    flow: str,
    replay: str,
    *,
    directory: ProjectDirectory = Path(),
    profile: ProjectProfile = None,
    on: On = (),
    tolerance: Annotated[
        tuple[str, ...],
        Parameter(
            negative=(),
            help="As amount=0.001: numbers that differ by at most this are equal; repeatable.",
        ),
    ] = (),
    ignore: Annotated[
        tuple[str, ...], Parameter(negative=(), help="A column that is not compared; repeatable.")
    ] = (),
    exit_code: Annotated[bool, Parameter(help="Exit with 10 if rows or columns differ.")] = False,
    json: Json = False,
) -> int:
    """Compare a replay with the rows that it replaces; nothing is changed.

    Rows are matched by the columns of --on, else by _partition and _offset; without these columns,
    equal rows are counted. NaN equals NaN, and 0.0 equals -0.0. For example: headrace pipeline diff
    orders r3 --ignore _timestamp

    Exit codes: 0 done, 2 wrong columns, 4 no such replay, 10 they differ (with --exit-code).

    Parameters
    ----------
    flow
        The flow.
    replay
        The replay, such as r3.
    """
    tolerances = dict(_tolerance(each) for each in tolerance)
    check_installed("pyspark", "pyarrow", "deltalake", "duckdb")
    project = project_in(directory, profile)

    from headrace.pipeline.diffs.compare import DiffSettings
    from headrace.pipeline.exit_codes import DECISION_NEEDED
    from headrace.pipeline.replays.replay_store import ReplayStore
    from headrace.pipeline.replays.steps import diff_replay
    from headrace.pipeline.run.storage import Storage

    store = ReplayStore(Storage.of(project).root)
    with replay_exit_codes():
        found = store.load(replay, flow)
        settings = DiffSettings(on, found.keys, tolerances, frozenset(ignore))
        result = diff_replay(store, found, settings)
    if json:
        named = {"flow": flow, "replay": replay, "version": found.version}
        print_json({**named, **result.to_json()})
    else:
        for line in diff_lines(found, result):
            print_line(line)
    return DECISION_NEEDED if exit_code and result.differs else 0


def _tolerance(text: str) -> tuple[str, float]:
    column, _, number = text.rpartition("=")
    try:
        value = float(number)
    except ValueError:
        value = -1.0
    if not column or not 0 <= value < float("inf"):
        raise UsageError(f"--tolerance {text}: must be as amount=0.001")
    return column, value
