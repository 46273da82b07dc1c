"""`headrace pipeline plan` names how many records a new flow begins with."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from headrace.cli.main import run as command
from headrace.client.admin.delete_records import delete_records
from headrace.client.producer.producer import Producer
from headrace.client.sync import connect, run
from headrace.model.nouns import TopicPartition
from headrace.pipeline.plan import planned
from headrace.pipeline.plan.applied import Applied
from headrace.pipeline.plan.begin_records import BeginRecords
from headrace.pipeline.plan.compare import Comparison, Verdict
from headrace.pipeline.plan.flow_print import FlowPrint, PrintedSource, PrintedTarget
from headrace.pipeline.plan.planned import PlannedFlow, ProjectPlan
from headrace.testing import BrokerThread
from tests.support.processes.cli_kit import SCHEMAS, check

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TABLE = PrintedTarget("t", "table", "delta")
TOPICS = {"one": ("orders",), "two": ("orders", "none"), "old": ("orders",)}


def printed(*topics: str) -> FlowPrint:
    sources = tuple(PrintedSource(topic, "id BIGINT", None, False) for topic in topics)
    return FlowPrint(TABLE, sources, (), (), {}, (), (), "")


def plan_of(project: object, storage: object) -> ProjectPlan:
    """A plan with two new flows and one that is the same."""
    flows = tuple(
        PlannedFlow(
            name,
            TABLE,
            Comparison(Verdict.SAME if name == "old" else Verdict.NEW, ("starts",)),
            None,
        )
        for name in TOPICS
    )
    prints = {name: printed(*topics) for name, topics in TOPICS.items()}
    return ProjectPlan("shop", flows, Applied(), "1", prints)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(planned, "plan_of", plan_of)
    (tmp_path / "pipeline.toml").write_text('name = "shop"\n')
    return str(tmp_path)


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    with BrokerThread() as started:
        yield started


def test_new_flows_are_counted_by_first_and_end_offsets(
    shop: str, broker: BrokerThread, capsys: pytest.CaptureFixture[str]
) -> None:
    broker.create_topics("orders", partitions=2)
    with connect(broker.bootstrap) as client:
        producer, now_ms = Producer(client), int(time.time() * 1000)
        for number in range(1234):
            run(producer.send("orders", b"x", timestamp=now_ms, partition=int(number < 34)))
        run(producer.flush())
    words = ["pipeline", "plan", shop, "-b", broker.bootstrap]
    assert command(words) == 10
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "one  NEW         starts: 1,234 records"
    assert lines[1] == "two  NEW         starts: 1,234 records of orders, none does not exist yet"
    assert lines[2] == "old  same        starts"
    with connect(broker.bootstrap) as client:
        run(
            delete_records(client, {TopicPartition("orders", 0): 4, TopicPartition("orders", 1): 1})
        )
        assert "none" not in run(client.metadata()).topics, "a plan creates no topic"
    assert command([*words, "--json"]) == 10
    found = json.loads(capsys.readouterr().out)
    check(json.loads((SCHEMAS / "pipeline-plan.json").read_text()), found)
    assert [flow["begin_records"] for flow in found["flows"]] == [
        {"orders": 1229},
        {"orders": 1229, "none": None},
        None,
    ]


def test_a_plan_without_a_broker_has_the_same_exit_code(
    shop: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["pipeline", "plan", shop, "-b", "127.0.0.1:1"]
    assert command(words) == 10
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("one  NEW         starts: how many is unknown: cannot connect to")
    assert lines[2] == "old  same        starts"
    assert command([*words, "--json"]) == 10
    found = json.loads(capsys.readouterr().out)
    check(json.loads((SCHEMAS / "pipeline-plan.json").read_text()), found)
    assert [flow["begin_records"] for flow in found["flows"]] == [None, None, None]


@pytest.mark.parametrize(
    ("topics", "text"),
    [
        ({"a": 1}, "1 record"),
        ({"a": 0}, "0 records"),
        ({"a": 1204331}, "1,204,331 records"),
        ({"a": None}, "a does not exist yet"),
        ({"a": 2, "b": 1}, "2 records of a, 1 record of b"),
    ],
)
def test_records_are_named_by_topic(topics: dict[str, int | None], text: str) -> None:
    assert BeginRecords(topics).text == text
