"""`headrace pipeline quarantine`: records that pipelines have refused."""

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import counted
from headrace.pipeline.commands.projects import ProjectDirectory, ProjectProfile, project_in
from headrace.pipeline.commands.sent_records import SentRecords
from headrace.terminal.broker_options import BrokerOptions, Json
from headrace.terminal.confirmation import Yes, confirm
from headrace.terminal.failure import EXIT_NOT_FOUND, CommandError, UsageError
from headrace.terminal.offset_positions import span_ms, time_ms
from headrace.terminal.output import note, print_json, print_line, print_list
from headrace.terminal.record_formats import record_json, shown_time
from headrace.typed.reason_group import reason_group

if TYPE_CHECKING:
    from headrace.client.client import Client
    from headrace.pipeline.project import Project
    from headrace.pipeline.quarantine.outcome import Outcome
    from headrace.pipeline.quarantine.records import Quarantined

app = App(
    name="quarantine",
    help="List, show, replay and drop records that pipelines have refused.",
    default_parameter=Parameter(show_default=False, negative=()),
)

Topic = Annotated[str, Parameter(help="The topic whose records were refused.")]
Flow = Annotated[
    str | None, Parameter(name="--flow", help="Only records that this flow has refused.")
]
Reason = Annotated[
    str | None, Parameter(name="--reason", help="Only records whose reason has this text.")
]


_LABELS = {"run": "run of the query"}
"""Labels that differ from the names of a record's facts. Spark gives each start of a query an id,
which is not the id of a run of the pipeline."""
GROUPS_MAX = 1000
"""Rows of the list; records of further reasons are counted together."""
OTHER_REASONS = "(other reasons)"


@dataclass
class _Group:
    """The records of one pipeline and flow with the same reason, counted."""

    pipeline: str
    flow: str
    reason: str
    state: str
    example: str
    first_ms: int
    last_ms: int
    records: int = 0
    again: int = 0
    """Records that were replayed, and refused again."""

    def add(self, record: "Quarantined") -> None:
        """Count a record."""
        self.records += 1
        self.again += record.attempt > 1
        self.first_ms = min(self.first_ms, record.timestamp)
        self.last_ms = max(self.last_ms, record.timestamp)

    def to_json(self) -> dict[str, object]:
        """Return the group for `--json`."""
        return {
            "reason": self.reason,
            "pipeline": self.pipeline,
            "flow": self.flow,
            "state": self.state,
            "records": self.records,
            "refused_again": self.again,
            "first_ms": self.first_ms,
            "last_ms": self.last_ms,
            "example": self.example,
        }


@app.command(name="list", alias="ls")
def list_(
    topic: Topic,
    *,
    flow: Flow = None,
    reason: Reason = None,
    all_: Annotated[
        bool, Parameter(name="--all", help="Also records that were replayed or dropped.")
    ] = False,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008 - a frozen value
) -> None:
    """List the refused records of a topic by reason.

    AGAIN counts those that were replayed, and refused again.

    For example: headrace pipeline quarantine list orders
    """
    groups: dict[tuple[str, str, str, str], _Group] = {}
    with cluster.client() as client:
        for record, outcome in _found(client, topic, flow, reason):
            if outcome is None or all_:
                _count(groups, record, outcome)
    ordered = sorted(
        groups.values(),
        key=lambda group: (-group.records, group.pipeline, group.flow, group.reason, group.state),
    )
    shown = [group.to_json() for group in ordered]
    columns = ["REASON", "FLOW", "STATE", "RECORDS", "AGAIN", "FIRST", "LAST", "EXAMPLE"]
    rows = [
        (
            group.reason,
            group.flow,
            group.state,
            group.records,
            group.again,
            shown_time(group.first_ms),
            shown_time(group.last_ms),
            group.example,
        )
        for group in ordered
    ]
    print_list(shown, columns, rows, none=f"no refused records of {topic}", json=json)


def _count(
    groups: dict[tuple[str, str, str, str], _Group], record: "Quarantined", outcome: str | None
) -> None:
    """Count a record in its group; in one for other reasons once there are many groups."""
    state, words = outcome or "waiting", reason_group(record.info["reason"])
    key = (*record.owner, words, state)
    if key not in groups and len(groups) >= GROUPS_MAX:
        key = (*record.owner, OTHER_REASONS, state)
    if key not in groups:
        groups[key] = _Group(*key, record.position, record.timestamp, record.timestamp)
    groups[key].add(record)


@app.command
def show(
    position: Annotated[str, Parameter(help="The record, as topic-partition@offset.")],
    *,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """Show a refused record: why, by which flow, its key, headers and value.

    For example: headrace pipeline quarantine show orders-3@88123
    """
    place, _, offset = position.rpartition("@")
    topic, _, partition = place.rpartition("-")
    if not topic or not partition.isdecimal() or not offset.isdecimal():
        raise UsageError(f"{position}: must be topic-partition@offset, such as orders-3@88123")
    with cluster.client() as client:
        found = [pair for pair in _found(client, topic, None, None) if pair[0].position == position]
    if not found:
        raise CommandError(f"{position} is not in the quarantine of {topic}", EXIT_NOT_FOUND)
    if json:
        print_json([_record_json(record, outcome) for record, outcome in found])
        return
    for record, outcome in found:
        print_line(f"{position}: {record.info['reason']}")
        print_line(f"  state: {outcome or 'waiting'}")
        print_line(f"  refused at: {shown_time(record.timestamp)}")
        for name in ("pipeline", "flow", "run", "batch", "stage", "field", "schema", "attempt"):
            print_line(f"  {_LABELS.get(name, name)}: {record.info[name] or '-'}")
        row = _record_json(record, outcome)
        for name in ("key", "headers", "value"):
            print_line(f"  {name}: {row[name] or '-'}")


@app.command
def replay(
    topic: Topic,
    *,
    flow: Flow = None,
    reason: Reason = None,
    wait: Annotated[
        str | None,
        Parameter(
            name="--wait",
            help="Wait so long, such as 2m, until a run of the project has read them, and show how"
            " many it refused again.",
        ),
    ] = None,
    directory: ProjectDirectory = Path(),
    project_profile: ProjectProfile = None,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """Send refused records to their flows again, each once.

    They go to the topic PIPELINE.TOPIC.retry, in one transaction for each flow. Runs of pipelines
    and sources with quarantineRetry=true read it. With --wait, records of other pipelines than the
    project's are left out. For example: headrace pipeline quarantine replay orders; headrace
    pipeline quarantine replay orders -d shop --wait 2m

    """
    from headrace.pipeline.quarantine import settlement
    from headrace.spark.quarantine.names import retry_topic

    reader = None if wait is None else _Reader(project_in(directory, project_profile), wait)
    sent = []
    with cluster.client() as client:
        wanted = _wanted(flow, reason)
        for owner in _owners(client, topic, flow, reason):
            if reader is not None and owner[0] != reader.pipeline:
                continue
            if not settlement.is_read(client, owner[0], topic):
                note(
                    f"{retry_topic(owner[0], topic)} is new: no query has read it so far. The next"
                    f" run of pipeline {owner[0]} does, or a query with quarantineRetry=true"
                )
            sent.append(SentRecords(topic, owner, settlement.replay(client, topic, owner, wanted)))
        if reader is not None:
            sent = [each._replace(outcome=reader.outcome(client, each)) for each in sent]
    if json:
        print_json([each.to_json() for each in sent])
    else:
        for each in sent:
            for line in each.lines():
                print_line(line)
        if not sent:
            note(_none_wait(topic, flow, reason))
    if reader is not None and any(each.outcome is None for each in sent):
        raise CommandError(f"not read within {wait}: is there a run of {reader.pipeline}?")


class _Reader:
    """The flows of a project, which read what is sent to them."""

    def __init__(self, project: "Project", wait: str) -> None:
        """UsageError if `wait` is no time."""
        from headrace.pipeline.run.storage import Storage

        wait_ms = span_ms(wait)
        if wait_ms is None:
            raise UsageError(f"--wait {wait}: must be as 2m, 30s or 1h")
        self.pipeline = project.identity
        self._until = time.monotonic() + wait_ms / 1000
        self._storage = Storage.of(project)

    def outcome(self, client: "Client", each: SentRecords) -> "Outcome | None":
        """Wait until a flow has read what was sent; return its outcome, or None after the time."""
        from headrace.pipeline.quarantine.outcome import end_of_retries, outcome_of, wait_for_read

        end = end_of_retries(client, self.pipeline, each.topic)
        left = self._until - time.monotonic()
        checkpoint = partial(self._storage.checkpoint_of_flow, each.owner[1])
        done = wait_for_read(
            checkpoint, self.pipeline, each.topic, end, left, time.monotonic, time.sleep
        )
        return outcome_of(client, each.topic, each.owner, each.sent) if done else None


@app.command
def drop(
    topic: Topic,
    *,
    before: Annotated[
        str | None,
        Parameter(
            name="--before",
            help="Only records before this time: 2026-11-20T12:00 (local), 7d (ago) as -7d, or"
            " milliseconds since 1970.",
        ),
    ] = None,
    flow: Flow = None,
    reason: Reason = None,
    yes: Yes = False,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """Mark refused records as dropped: they are not listed and not replayed any more.

    They stay in the topic until its retention. For example: headrace pipeline quarantine drop
    orders --before 2026-11-20 --yes

    """
    from headrace.pipeline.quarantine import settlement

    before_ms = None if before is None else time_ms(before, f"--before {before}")
    wanted = _wanted(flow, reason, before_ms)
    dropped = []
    with cluster.client() as client:
        waiting = Counter(
            record.owner
            for record, outcome in _found(client, topic, flow, reason)
            if outcome is None and wanted(record)
        )
        if waiting:
            confirm(f"drop {counted(waiting.total(), 'refused record')} of {topic}?", yes=yes)
        for owner in sorted(waiting):
            count = settlement.drop(client, topic, owner, wanted)
            dropped.append({"pipeline": owner[0], "flow": owner[1], "records": count})
    if json:
        print_json(dropped)
        return
    if not dropped:
        note(_none_wait(topic, flow, reason))
    for each in dropped:
        print_line(f"{each['records']} dropped of flow {each['flow']}")


def _none_wait(topic: str, flow: str | None, reason: str | None) -> str:
    if flow is None and reason is None:
        return f"no refused records of {topic} wait"
    given = " and ".join(
        option for option, value in (("--flow", flow), ("--reason", reason)) if value is not None
    )
    return (
        f"none of the waiting records of {topic} matches {given}; headrace pipeline quarantine "
        f"list {topic} shows them"
    )


class _wanted:  # noqa: N801 - a function with its values
    """Whether a record is chosen by a command's options."""

    def __init__(self, flow: str | None, reason: str | None, before_ms: int | None = None) -> None:
        self._flow, self._reason, self._before_ms = flow, reason, before_ms

    def __call__(self, record: "Quarantined") -> bool:
        reason, text = self._reason or "", record.info["reason"]
        return (
            self._flow in (None, record.info["flow"])
            and (reason in text or reason in reason_group(text))
            and (self._before_ms is None or record.timestamp < self._before_ms)
        )


def _found(
    client: "Client", topic: str, flow: str | None, reason: str | None
) -> Iterator[tuple["Quarantined", str | None]]:
    from headrace.pipeline.quarantine.records import topic_exists
    from headrace.pipeline.quarantine.settlement import waiting

    try:
        yield from waiting(client, topic, _wanted(flow, reason))
    except ApiError as error:
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        from headrace.spark.quarantine.names import quarantine_topic

        if topic_exists(client, topic):
            why = "no record of it was refused"
        else:
            why = "there is no such topic; headrace topic list shows all"
        raise CommandError(
            f"{topic} has no quarantine, the topic {quarantine_topic(topic)}: {why}", EXIT_NOT_FOUND
        ) from error


def _owners(
    client: "Client", topic: str, flow: str | None, reason: str | None
) -> list[tuple[str, str]]:
    """Return pipeline and flow of the chosen records that are not settled."""
    found = _found(client, topic, flow, reason)
    return sorted({record.owner for record, outcome in found if outcome is None})


def _record_json(record: "Quarantined", outcome: str | None) -> dict[str, object]:
    own = record.record._replace(headers=record.own_headers)
    added = {"position": record.position, "state": outcome or "waiting", "info": {**record.info}}
    return {**record_json(record.at, own), **added}
