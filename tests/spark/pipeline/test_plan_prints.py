"""Prints of flows on a real Spark: what they contain, and what changes of the text they ignore."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.pipeline.plan.compare import Verdict, compare
from headrace.pipeline.plan.flow_print import FlowPrint
from headrace.pipeline.plan.prints import prints_of
from tests.spark.pipeline.projects import declared

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from headrace.pipeline.plan.compare import Comparison

FLOWS = """
from typing import NamedTuple
from datetime import datetime

RATE = 2

class Line(NamedTuple):
    at: datetime
    client: str

def parse(value):
    \"\"\"Split a line.\"\"\"
    return Line(*value.split(b" "))

def doubled(value):
    return helper(value) * RATE

def helper(value):
    return value  # nothing yet

@F.udf("double")
def paid(amount):
    return doubled(amount)

@dp.temporary_view
def placed():
    return hp.topic("orders", "id BIGINT NOT NULL, sku STRING, amount DOUBLE, at TIMESTAMP",
                    event_time="at", watermark="10 minutes")

@dp.table(format="delta")
@hp.expect("positive", "amount > 0")
def orders():
    return hp.read("placed").where("amount IS NOT NULL").select("id", "amount", "at")

@dp.table
def revenue():
    sums = hp.read("placed").withColumn("paid", paid("amount")).withColumn("r", F.rand())
    return sums.groupBy(F.window("at", "5 minutes"), "sku").agg(F.sum("paid").alias("paid"))

@dp.table
def clients():
    lines = hp.topic("log", hp.parser(parse, Line), event_time="at", watermark="1 minute",
                     heartbeats=True)
    return lines.dropDuplicates(["client", "at"]).select("client")

@dp.table
def lines():
    return hp.topic("log", hp.parser(parse, Line), meta=False)

@dp.table
def pairs():
    other = hp.topic("payments", "id BIGINT NOT NULL, paid_at TIMESTAMP", event_time="paid_at",
                     watermark="5 minutes").alias("p")
    condition = "o.id = p.id AND paid_at BETWEEN at AND at + INTERVAL 30 MINUTES"
    return hp.read("placed").alias("o").join(other, F.expr(condition)).select("o.id", "paid_at")
"""
SAME, COMPATIBLE, MEANING = Verdict.SAME, Verdict.COMPATIBLE, Verdict.MEANING
CHANGES = {
    "comment": ("# nothing yet", "# see the docs", {}),
    "docstring": ("Split a line.", "Split a line of the log.", {}),
    "function behind a udf": (
        "return value  #", "return value + 1  #", {"revenue": (MEANING, "function paid changed")},
    ),
    "constant of a function": ("RATE = 2", "RATE = 3", {"revenue": (MEANING, "function paid")}),
    "parser": (
        'value.split(b" ")', 'value.split(b"|")',
        {
            "clients": (MEANING, "the parser of log changed"),
            "lines": (COMPATIBLE, "the parser of log changed: from the next batch on"),
        },
    ),
    "heartbeats": (
        "heartbeats=True", "heartbeats=False", {"clients": (MEANING, "heartbeats of log are off")},
    ),
    "filter of a stateless flow": (
        '"amount IS NOT NULL"', '"amount > 1"',
        {"orders": (COMPATIBLE, "steps without state changed: from the next batch on")},
    ),
    "column of a topic that no state uses": (
        "sku STRING, amount", "sku STRING, note STRING, amount",
        {
            "orders": (COMPATIBLE, "columns of topic orders changed"),
            "revenue": (COMPATIBLE, "columns of topic orders changed"),
            "pairs": (COMPATIBLE, "columns of topic orders changed"),
        },
    ),
    "type of a column that the state uses": (
        "sku STRING, amount", "sku INT, amount",
        {
            "orders": (COMPATIBLE, "columns of topic orders changed"),
            "revenue": (Verdict.INCOMPATIBLE, "column sku string → int"),
            "pairs": (COMPATIBLE, "columns of topic orders changed"),
        },
    ),
    "step above the last state": (
        '.alias("paid"))', '.alias("paid")).where("paid > 1")',
        {"revenue": (COMPATIBLE, "steps without state changed")},
    ),
    "column of a table": (
        '"amount", "at")', '"amount", "at", "sku")',
        {"orders": (COMPATIBLE, "column sku string: added to the table, its earlier rows are nu")},
    ),
}  # fmt: skip


def prints(spark: SparkSession, place: Path, text: str) -> dict[str, FlowPrint]:
    with declared(place, text) as found:
        return prints_of(spark, found)


@pytest.fixture(scope="module")
def before(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, FlowPrint]:
    return prints(spark, tmp_path_factory.mktemp("before"), FLOWS)


def changed(before: dict[str, FlowPrint], after: dict[str, FlowPrint]) -> dict[str, Comparison]:
    assert before.keys() == after.keys()
    found = {name: compare(before[name], after[name]) for name in before}
    return {name: each for name, each in found.items() if each.verdict is not SAME}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_reported_for_the_flows_that_it_concerns(
    spark: SparkSession, tmp_path: Path, before: dict[str, FlowPrint], name: str
) -> None:
    old, new, expected = CHANGES[name]
    text = FLOWS.replace(old, new)
    assert text != FLOWS
    found = changed(before, prints(spark, tmp_path, text))
    assert {flow: each.verdict for flow, each in found.items()} == {
        flow: verdict for flow, (verdict, _) in expected.items()
    }, found
    for flow, (_, words) in expected.items():
        assert words in found[flow].sentence


def test_a_print_is_equal_after_its_way_through_json(before: dict[str, FlowPrint]) -> None:
    for name, each in before.items():
        assert FlowPrint.from_json(each.to_json()) == each, name
        assert FlowPrint.from_json(each.to_json()).digest == each.digest


def test_a_print_has_sources_state_and_plan(before: dict[str, FlowPrint]) -> None:
    assert [source.topic for source in before["pairs"].sources] == ["orders", "payments"]
    assert [operator.name for operator in before["pairs"].operators] == ["symmetricHashJoin"]
    assert set(before["pairs"].operators[0].stores) == {
        f"{side}-{store}"
        for side in ("left", "right")
        for store in ("keyToNumValues", "keyWithIndexToValue")
    }
    assert before["orders"].operators == ()
    assert before["orders"].stateful == ()
    assert before["revenue"].sources[0].used == ("sku STRING", "amount DOUBLE", "at TIMESTAMP")
    assert before["revenue"].stateful[-1].strip() == "Topic orders"
    assert list(before["revenue"].functions) == ["paid"]
    text = str(before)
    assert "/tmp" not in text
    assert "headrace-plan-" not in text
