"""`headrace rocketmq`: where groups begin, RocketMQ's own files, and the move of a store."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from cyclopts import App, Parameter

from headrace.cli.rocketmq.move import move
from headrace.client.admin.operations import call_operation
from headrace.client.sync import run
from headrace.terminal.broker_options import BrokerOptions, Json
from headrace.terminal.confirmation import Yes, confirm
from headrace.terminal.failure import CommandError, UsageError
from headrace.terminal.output import counted, print_list, tell

app = App(
    name="rocketmq",
    help="Explain where RocketMQ's consumer groups begin; move stores, offsets, topics and groups.",
)
offsets = App(
    name="offsets", help="Write and read the offsets, topics and groups as RocketMQ's own files."
)
topics = App(name="topics", help="Create topics as RocketMQ's own file has them.")
groups = App(name="groups", help="Store groups' settings as RocketMQ's own file has them.")
for each in (offsets, topics, groups):
    app.command(each)
app.command(move)
_SkipRefused = Annotated[
    bool, Parameter(name="--skip-refused", help="Import the others if some are refused.")
]
_DryRun = Annotated[bool, Parameter(name="--dry-run", help="Show the plan; change nothing.")]


def _ask(cluster: BrokerOptions, operation: str, **question: Any) -> Any:  # noqa: ANN401 - JSON
    """Run an operation on the broker and return its result. Raises ApiError."""
    with cluster.client() as client:
        return run(call_operation(client, operation, question, "ROCKETMQ"))


@app.command(name="where-would-a-group-begin")
def where_would_a_group_begin(
    topic: Annotated[str, Parameter(help="By its RocketMQ name.")],
    *,
    group: Annotated[
        str | None, Parameter(name=["--group", "-g"], help="This group; else one that is new.")
    ] = None,
    at: Annotated[
        int | None,
        Parameter(
            help="The time of CONSUME_FROM_TIMESTAMP in ms since 1970; half an hour ago, if you do"
            " not say."
        ),
    ] = None,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """Explain for each queue of a topic where a RocketMQ group would begin to read, and why.

    FIRST, LAST and TIMESTAMP are the first offsets that clients with CONSUME_FROM_FIRST_OFFSET,
    CONSUME_FROM_LAST_OFFSET and CONSUME_FROM_TIMESTAMP would get.

    For example: headrace rocketmq where-would-a-group-begin orders
    """
    rows = _ask(cluster, "rocketmq.group.beginning", topic=topic, group=group, at_ms=at)
    titles = ["QUEUE", "MIN", "MAX", "RULE", "ANSWER", "FIRST", "LAST", "TIMESTAMP", "WHY"]
    cells = (
        [
            row["queue"], row["min"], row["max"], row["rule"],
            "not found" if row["answer"] < 0 else row["answer"],
            row["first"], row["last"], row["timestamp"], row["why"],
        ]
        for row in rows
    )  # fmt: skip
    print_list(rows, titles, cells, none="the topic has no queue that consumers read", json=json)


@offsets.command
def export(
    directory: Annotated[Path, Parameter(help="Created if it does not exist.")],
    *,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """Write consumerOffset.json, topics.json and subscriptionGroup.json, as a RocketMQ broker reads
    them from its config directory. Existing files are not overwritten.

    For example: headrace rocketmq offsets export moved
    """
    files = _ask(cluster, "rocketmq.files.export")["files"]
    present = [name for name in files if (directory / name).exists()]
    if present:
        raise UsageError(f"{directory / present[0]} exists: name another directory")
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (directory / name).write_text(text, "utf-8")
    text = f"{counted(len(files), 'file')} written to {directory}"
    tell(text, {"directory": str(directory), "files": sorted(files)}, json=json)


@offsets.command(name="import")
def import_(
    file: Annotated[Path, Parameter(help="A consumerOffset.json of RocketMQ.")],
    *,
    at: Annotated[
        int | None,
        Parameter(
            help="A time in ms since 1970: an offset that its queue does not have becomes the first"
            " one stored since then."
        ),
    ] = None,
    skip_refused: _SkipRefused = False,
    dry_run: _DryRun = False,
    yes: Yes = False,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """Store the offsets of RocketMQ groups from a file, all or none of them.

    An offset is refused if its queue does not have it: a client would be moved to the end, and
    everything before it skipped.

    For example: headrace rocketmq offsets import moved/consumerOffset.json --dry-run
    """
    text = _text_of(file)
    plan = _ask(cluster, "rocketmq.offsets.plan", offsets=text, at_ms=at)
    refused = sum(bool(row["refused"]) for row in plan)
    if dry_run or (refused and not skip_refused):
        _show(plan, json=json)
        _check_refused(refused, counted(len(plan), "offset"), dry_run=dry_run)
        return
    confirm(f"Store {counted(len(plan) - refused, 'offset')}?", yes=yes)
    done = _ask(
        cluster, "rocketmq.offsets.import", offsets=text, at_ms=at, skip_refused=skip_refused
    )
    _show(done, json=json)


class _Import(NamedTuple):
    """An import of settings: its operation's noun, the noun of one entry, and columns."""

    nouns: str
    noun: str
    titles: list[str]

    def run(
        self,
        file: Path,
        cluster: BrokerOptions,
        *,
        skip_refused: bool,
        dry_run: bool,
        yes: bool,
        json: bool,
    ) -> None:
        """Show the plan, and do it if the operator agrees. Raises CommandError, ApiError."""
        text = _text_of(file)
        plan = _ask(cluster, f"rocketmq.{self.nouns}.plan", **{self.nouns: text})
        actions = Counter(row["action"] for row in plan)
        if dry_run or (actions["refuse"] and not skip_refused):
            self._show(plan, json=json)
            count = counted(len(plan), self.noun)
            _check_refused(actions["refuse"], count, dry_run=dry_run)
            return
        changed = actions["create"] + actions["change"]
        confirm(f"Create or change {counted(changed, self.noun)}?", yes=yes)
        question = {self.nouns: text, "skip_refused": skip_refused}
        self._show(_ask(cluster, f"rocketmq.{self.nouns}.import", **question), json=json)

    def _show(self, plan: list[dict[str, Any]], *, json: bool) -> None:
        titles = [*self.titles, "ACTION", "WHY"]
        cells = (
            [None if value in (-1, "") else value for value in row.values()][: len(titles)]
            for row in plan
        )
        print_list(plan, titles, cells, none=f"the file has no {self.nouns}", json=json)


def _import_of(asked: _Import) -> Callable[..., None]:
    """Return the command that imports settings of a kind."""

    def import_(
        file: Annotated[Path, Parameter(help="The file of a RocketMQ broker.")],
        *,
        skip_refused: _SkipRefused = False,
        dry_run: _DryRun = False,
        yes: Yes = False,
        json: Json = False,
        cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
    ) -> None:
        asked.run(file, cluster, skip_refused=skip_refused, dry_run=dry_run, yes=yes, json=json)

    return import_


topics.command(
    name="import",
    help="Create the topics of a topics.json, or change their numbers of queues and permissions."
    "\n\nTopics that RocketMQ's brokers make for themselves are left out.\n\nFor example: headrace"
    " rocketmq topics import moved/topics.json --dry-run",
)(_import_of(_Import("topics", "topic", ["TOPIC", "READ", "WRITE", "PERM", "PRESENT"])))
groups.command(
    name="import",
    help="Store the settings of the groups of a subscriptionGroup.json.\n\nGroups of RocketMQ's"
    " brokers and tools are left out.\n\nFor example: headrace rocketmq groups import"
    " moved/subscriptionGroup.json --dry-run",
)(_import_of(_Import("groups", "group", ["GROUP", "CONSUMES", "RETRIES"])))


def _text_of(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {file}: {error}") from None


def _check_refused(refused: int, of: str, *, dry_run: bool) -> None:
    if refused and not dry_run:
        raise CommandError(f"{refused} of {of} refused, nothing is changed; see --skip-refused")


def _show(plan: list[dict[str, Any]], *, json: bool) -> None:
    titles = ["GROUP", "TOPIC", "QUEUE", "OFFSET", "GIVEN", "PRESENT", "REFUSED"]
    cells = (
        [
            row["group"], row["topic"], row["queue"], row["offset"], row["given"],
            None if row["present"] < 0 else row["present"], row["refused"] or None,
        ]
        for row in plan
    )  # fmt: skip
    print_list(plan, titles, cells, none="the file has no offsets", json=json)
