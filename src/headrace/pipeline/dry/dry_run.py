"""A dry run: the newest records of each topic through a pipeline's flows, in one micro-batch.

Decoders, checks, windows and watermarks are those of a run. Rows stay in this process: no table,
checkpoint, topic or group is written, and Spark's checkpoints are in a temporary directory.
"""

from __future__ import annotations

import math
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.pipeline.checked import checking_session
from headrace.pipeline.declarations import DeclarationError
from headrace.pipeline.exit_codes import CHECK_FAILED
from headrace.pipeline.given.given_run import GivenRun
from headrace.pipeline.given.records import GivenRecord
from headrace.pipeline.load import loaded
from headrace.pipeline.newest_records import newest_records
from headrace.pipeline.run.failures import Failure, FlowPlace, failure_of
from headrace.pipeline.validate import findings_of
from headrace.spark.errors import CheckFailedError
from headrace.spark.quarantine.options import SHARE_MAX
from headrace.typed.reason_group import reason_group

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import SparkSession

    from headrace.client.client import Client
    from headrace.pipeline.given.given_run import FlowRows
    from headrace.pipeline.graph import DeclaredFlow
    from headrace.pipeline.project import Project

RECORDS_MAX = 10_000
"""Most records of each topic: they are decoded one by one and held in memory."""
ROWS_SHOWN = 5
MASK = "***"
"""Stands for the values of hidden columns."""
_COLUMNS = ("key", "value", "partition", "offset", "timestamp")
_SHUFFLE = "spark.sql.shuffle.partitions"


@dataclass(frozen=True)
class DryFlow:
    """The outcome of one flow."""

    name: str
    target: str
    outcome: FlowRows | None
    """None if it failed."""
    failure: Failure | None

    @property
    def shown(self) -> list[dict[str, Any]]:
        """The first rows as JSON types, with hidden columns masked."""
        if self.outcome is None:
            return []
        hidden = self.outcome.hidden
        return [
            {name: MASK if name in hidden else _shown(value) for name, value in row.items()}
            for row in self.outcome.rows[:ROWS_SHOWN]
        ]


@dataclass(frozen=True)
class DryRefusals:
    """Records of a topic that are refused for one reason."""

    topic: str
    reason: str
    """Without the value that it was found in."""
    records: int
    example: str
    """Position of the first."""


@dataclass(frozen=True)
class DryResult:
    """The outcome of a dry run."""

    pipeline: str
    profile: str | None
    last: int
    topics: dict[str, int]
    """Records that were read, by topic."""
    flows: tuple[DryFlow, ...]
    refused: tuple[DryRefusals, ...]
    refused_records: Mapping[str, int]
    """How many of the records of a topic a flow has refused, each counted once."""

    @property
    def crowded(self) -> dict[str, int]:
        """The topics of which so many records are refused that a run would end, with the number."""
        found = self.refused_records.items()
        return {topic: count for topic, count in found if count > self.topics[topic] * SHARE_MAX}

    @property
    def failure(self) -> Failure | None:
        """The first failure of a flow."""
        return next((flow.failure for flow in self.flows if flow.failure is not None), None)

    def to_json(self) -> dict[str, Any]:
        """Return the result for `--json`."""
        return {
            "event": "dry",
            "pipeline": self.pipeline,
            "profile": self.profile,
            "last": self.last,
            "topics": [{"topic": name, "records": count} for name, count in self.topics.items()],
            "flows": [_flow_json(flow) for flow in self.flows],
            "refused": [vars(each) for each in self.refused],
        }


def dry_run(
    project: Project,
    connect: Callable[[], Client],
    last: int,
    tell: Callable[[str], None],
    spark: SparkSession | None = None,
) -> DryResult:
    """Run a project's flows on the last records of each topic.

    `connect` returns a new client for each read, `tell` gets notes about it. `spark`: a session to
    use; None: one is started. DeclarationError for errors of the project; ApiError, ClientError.
    """
    with ExitStack() as stack:
        if spark is None:
            spark = stack.enter_context(checking_session(project, "dry run"))
        found = stack.enter_context(loaded(project))
        findings, topics = findings_of(spark, found)
        if findings:
            raise DeclarationError("\n".join(map(str, findings)))
        before = spark.conf.get(_SHUFFLE) or "200"
        # A state store for each partition costs time; these records are few.
        spark.conf.set(_SHUFFLE, "1")
        stack.callback(spark.conf.set, _SHUFFLE, before)
        run = GivenRun(spark, found)
        counts = {}
        for topic in sorted(topics):
            records = list(_records(connect, topic, last, tell))
            counts[topic] = len(records)
            run.given(topic, list(records))
        flows = [flow for flow in found.graph.flows if flow.target not in found.graph.views]
        outcomes = tuple(_flow(run, flow, project.directory) for flow in flows)
        return DryResult(
            project.name,
            project.profile,
            last,
            counts,
            outcomes,
            tuple(_refused(run)),
            _by_topic(run),
        )


def _records(
    connect: Callable[[], Client], topic: str, last: int, tell: Callable[[str], None]
) -> Iterator[GivenRecord]:
    for batch in newest_records(connect, topic, last, _COLUMNS, tell):
        for row in batch.to_pylist():
            place = (row["partition"], row["offset"])
            yield GivenRecord(row["value"], row["key"], row["timestamp"], place)


def _flow(run: GivenRun, flow: DeclaredFlow, directory: Path) -> DryFlow:
    outcome, failure = None, None
    try:
        outcome = run.ran(flow)
    except CheckFailedError as error:
        failure = Failure(CHECK_FAILED, f"{flow.name}: {error}")
    except Exception as error:  # noqa: BLE001 - an error of the project's code, by many kinds
        failure = failure_of(str(error), FlowPlace(flow.name, directory, Path(), flow.checks))
    return DryFlow(flow.name, flow.target, outcome, failure)


def _refused(run: GivenRun) -> Iterator[DryRefusals]:
    counts: Counter[tuple[str, str]] = Counter()
    examples: dict[tuple[str, str], str] = {}
    for topic, record in sorted(
        run.refused(), key=lambda each: (each[0], each[1].partition, each[1].offset)
    ):
        # The rest quotes the value, which may be of a hidden column.
        group = topic, reason_group(record.reason)
        counts[group] += 1
        examples.setdefault(group, f"{topic}-{record.partition}@{record.offset}")
    for (topic, reason), count in counts.most_common():
        yield DryRefusals(topic, reason, count, examples[topic, reason])


def _by_topic(run: GivenRun) -> Counter[str]:
    places = {(topic, each.partition, each.offset) for topic, each in run.refused()}
    return Counter(topic for topic, _, _ in places)


def _flow_json(flow: DryFlow) -> dict[str, Any]:
    outcome, failure = flow.outcome, flow.failure
    return {
        "flow": flow.name,
        "target": flow.target,
        "rows": 0 if outcome is None else len(outcome.rows),
        "late": 0 if outcome is None else outcome.late,
        "failed_checks": {} if outcome is None else outcome.failed,
        "unknown_keys": {} if outcome is None else outcome.unknown_keys,
        "hidden": [] if outcome is None else sorted(outcome.hidden),
        "shown": flow.shown,
        "error": failure and {"code": failure.code, "text": failure.text},
    }


def _shown(value: object) -> object:
    """Return a value as JSON types; times, decimals and such as texts."""
    match value:
        case float() if not math.isfinite(value):
            return str(value)
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return value.decode("utf-8", "replace")
        case dict():
            return {str(key): _shown(each) for key, each in value.items()}
        case list() | tuple():
            return [_shown(each) for each in value]
        case _:
            return str(value)
