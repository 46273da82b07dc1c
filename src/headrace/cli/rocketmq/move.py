"""`headrace rocketmq move`: a plan, then a new data directory, which appears when it is complete.

    STORE, read only ──> DATA.moving: logs, then settings by a broker of its own ──> rename to DATA

A move that is interrupted leaves DATA.moving, which the next one removes.
"""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from headrace.cli.broker.start import PAIR_FLAGS, parse_pairs
from headrace.logtools.rocketmq.plan import MovePlan, make_plan
from headrace.logtools.rocketmq.plan_text import TITLES, plan_json, plan_lines, topic_cells
from headrace.logtools.rocketmq.store import Store
from headrace.logtools.rocketmq.write import write_beside
from headrace.posix.disk import RealDisk, in_use
from headrace.terminal.broker_options import Json
from headrace.terminal.confirmation import Yes, confirm
from headrace.terminal.failure import CommandError, UsageError
from headrace.terminal.output import counted, note, print_columns, print_json, print_line

_LISTENERS = "PLAINTEXT://127.0.0.1:9092,ROCKETMQ://127.0.0.1:9876"


def move(
    store: Annotated[
        Path, Parameter(help="The stopped broker's storePathRootDir, 4.9 or 5; only read.")
    ],
    *,
    data: Annotated[Path, Parameter(help="Headrace's new log directory; must not exist.")],
    commit_log: Annotated[
        Path | None,
        Parameter(help="The broker's storePathCommitLog, if it is elsewhere."),
    ] = None,
    leave_out: Annotated[
        bool,
        Parameter(help="Move the rest if something cannot be moved."),
    ] = False,
    skip_damaged: Annotated[
        bool,
        Parameter(help="Move the rest if messages are damaged."),
    ] = False,
    pairs: Annotated[
        tuple[str, ...],
        Parameter(
            name=PAIR_FLAGS, help="A setting of the broker as key=value; may be given again."
        ),
    ] = (),
    dry_run: Annotated[bool, Parameter(help="Show the plan; write nothing.")] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Move the store of a stopped RocketMQ broker into a new log directory.

    Messages keep their queue offsets, so each group goes on at its next message. Topics, groups,
    offsets, delayed messages and undecided transactions are moved, too. The plan names what is not
    moved, before anything is written.

    For example: headrace rocketmq move /home/rocketmq/store --data /var/lib/headrace --dry-run
    """
    settings = parse_pairs(pairs)
    into = _checked(store, data, commit_log)
    disk = RealDisk(None)
    opened = Store(disk, str(store), None if commit_log is None else str(commit_log))
    plan = make_plan(opened)
    _show(plan, data, json=json)
    if dry_run:
        return
    plan.check_agreed(leave_out=leave_out, skip_damaged=skip_damaged)
    confirm(f"Write {counted(plan.messages, 'message')} to {data}?", yes=yes)
    _write(disk, opened, plan, into, settings)
    if not json:
        print_line(f"everything is in {data}. Next step:")
        print_line(f"  headrace serve --data {data} --listeners {_LISTENERS}")


def _show(plan: MovePlan, data: Path, *, json: bool) -> None:
    if json:
        print_json(plan_json(plan, str(data)))
        return
    print_columns(TITLES, [topic_cells(topic) for topic in plan.topics])
    for line in plan_lines(plan):
        print_line(line)


def _checked(store: Path, data: Path, commit_log: Path | None) -> Path:
    """Return the target. UsageError: paths are wrong. CommandError: a broker runs on the store."""
    into, source = data.absolute(), store.absolute()
    if not (commit_log or store / "commitlog").is_dir() or not (store / "consumequeue").is_dir():
        text = "has no commitlog or no consumequeue: name a broker's storePathRootDir"
        raise UsageError(f"{store}: {text}")
    if into.is_relative_to(source) or source.is_relative_to(into):
        raise UsageError(f"{data}: is inside the store, or contains it")
    if into.exists() and (not into.is_dir() or any(into.iterdir())):
        raise UsageError(f"{data}: exists; name a new directory")
    if in_use(str(store / "lock")):
        raise CommandError(f"{store}: a broker is running on it; stop it first")
    return into


def _write(
    disk: RealDisk, store: Store, plan: MovePlan, into: Path, settings: dict[str, str]
) -> None:
    from headrace.cli.rocketmq.moved_settings import store_settings  # the whole broker

    moving = write_beside(disk, store, plan, str(into))
    note(f"{counted(plan.messages, 'message')} written; storing settings and offsets")
    store_settings(plan, moving, settings)
    disk.rename(moving, str(into))
    disk.sync_directory(str(into.parent))
