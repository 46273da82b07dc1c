"""Comparison of two prints of a flow: verdicts and sentences, without Spark."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headrace.pipeline.plan.compare import Verdict, compare
from headrace.pipeline.plan.flow_print import FlowPrint, Operator, PrintedSource, PrintedTarget

WATERMARK = "EventTimeWatermark , at#1: timestamp, 10 minutes"


def struct(*kinds: str) -> dict[str, Any]:
    fields = [
        {"name": f"c{number}", "type": kind, "nullable": True, "metadata": {}}
        for number, kind in enumerate(kinds)
    ]
    return {"type": "struct", "fields": fields}


SUMS = Operator("stateStoreSave", {"default": (struct("string"), struct("long"))})
STATEFUL = FlowPrint(
    target=PrintedTarget("revenue", "table", "delta", ("day(at)",)),
    sources=(
        PrintedSource("orders", "sku string", None, heartbeats=False, used=("sku STRING",)),
        PrintedSource("returns", "sku string", None, heartbeats=False, used=("sku STRING",)),
    ),
    operators=(SUMS,),
    stateful=("~Aggregate [sku#0], [sku#0, count(1) AS n#2]", f" ~{WATERMARK}", "  Topic orders"),
    functions={"paid": "1"},
    columns=(("sku", "string", True), ("n", "bigint", False)),
    checks=(("positive", "n > 0", "keep", 1.0),),
    whole="w",
)
STATELESS = replace(STATEFUL, operators=(), stateful=(), functions={})
TO_TOPIC = replace(STATEFUL, target=PrintedTarget("alerts", "sink", "order-alerts"))
INCOMPATIBLE, MEANING, COMPATIBLE = Verdict.INCOMPATIBLE, Verdict.MEANING, Verdict.COMPATIBLE


def operator(name: str = "stateStoreSave", *kinds: str) -> Operator:
    return Operator(name, {"default": (struct("string"), struct(*(kinds or ("long",))))})


def changed_source(number: int = 0, **values: object) -> tuple[PrintedSource, ...]:
    found = list(STATEFUL.sources)
    found[number] = replace(found[number], **values)  # type: ignore[arg-type]
    return tuple(found)


CHANGES: list[tuple[FlowPrint, dict[str, object], Verdict, str]] = [
    (STATEFUL, {"operators": (operator("dedupe"),)}, INCOMPATIBLE,
     "stateful steps stateStoreSave → dedupe"),
    (STATEFUL, {"operators": (operator("stateStoreSave", "double"),)}, INCOMPATIBLE,
     "the state has other types"),
    (STATEFUL, {"operators": (SUMS, SUMS)}, INCOMPATIBLE,
     "stateful steps stateStoreSave → stateStoreSave, stateStoreSave"),
    (STATEFUL, {"operators": ()}, INCOMPATIBLE, "stateful steps stateStoreSave → none"),
    (STATEFUL, {"sources": STATEFUL.sources[:1]}, INCOMPATIBLE, "source returns is removed"),
    (STATELESS, {"sources": STATEFUL.sources[1:]}, INCOMPATIBLE, "source orders is removed"),
    (STATELESS, {"sources": changed_source(topic="clicks")}, INCOMPATIBLE,
     "source clicks is added, source orders is removed"),
    (STATELESS, {"sources": (*STATEFUL.sources, STATEFUL.sources[0])}, INCOMPATIBLE,
     "source orders is added"),
    (STATELESS, {"columns": STATEFUL.columns[1:]}, INCOMPATIBLE,
     "column sku is no longer written to the table"),
    (STATELESS, {"columns": (("sku", "int", True), STATEFUL.columns[1])}, INCOMPATIBLE,
     "column sku string → int"),
    (STATELESS, {"target": replace(STATEFUL.target, format="parquet")}, INCOMPATIBLE,
     "the table's format delta → parquet"),
    (STATELESS, {"target": replace(STATEFUL.target, partitions=())}, INCOMPATIBLE,
     "partition_cols day(at) → none"),
    (STATELESS, {"target": replace(STATEFUL.target, name="sums")}, INCOMPATIBLE,
     "writes to table sums instead of table revenue"),
    (TO_TOPIC, {"target": replace(TO_TOPIC.target, format="x")}, MEANING,
     "writes to topic x instead of order-alerts"),
    (STATELESS, {"sources": STATEFUL.sources[::-1]}, MEANING,
     "sources are in another order, returns, orders"),
    (STATEFUL, {"functions": {"paid": "2"}}, MEANING, "function paid changed"),
    (STATEFUL, {"sources": changed_source(1, parser="p")}, MEANING,
     "the parser of returns changed"),
    (STATEFUL, {"sources": changed_source(1, heartbeats=True)}, MEANING,
     "heartbeats of returns are on"),
    (STATEFUL, {"sources": changed_source(used=("sku INT",))}, MEANING,
     "uses sku INT of orders instead of sku STRING"),
    (STATEFUL, {"stateful": ("~Aggregate [sku#0], [sku#0, sum(n#1) AS n#2]",
                             *STATEFUL.stateful[1:])}, MEANING,
     "computes (count(1) AS n) → (sum(n) AS n)"),
    (STATEFUL, {"stateful": (STATEFUL.stateful[0], " ~" + WATERMARK.replace("10", "60"),
                             STATEFUL.stateful[2])}, MEANING,
     "watermark of at 10 minutes → 60 minutes"),
    (STATEFUL, {"stateful": (*STATEFUL.stateful, " ~Filter (n#1 > 1)")}, MEANING,
     "filter (n > 1) is added"),
    (STATEFUL, {"stateful": (*STATEFUL.stateful, " Other a")}, MEANING, "step Other a is added"),
    (STATEFUL, {"stateful": STATEFUL.stateful[:2]}, MEANING, "step Topic orders is removed"),
    (STATEFUL, {"operators": (Operator("stateStoreSave", {"default": (
        {"type": "struct", "fields": [{**struct("string")["fields"][0], "name": "x"}]},
        struct("long"))}),)}, MEANING, "the state's columns have other names"),
    (STATELESS, {"columns": (*STATEFUL.columns, ("x", "int", True))}, COMPATIBLE,
     "column x int: added to the table, its earlier rows are null in it"),
    (TO_TOPIC, {"columns": STATEFUL.columns[1:]}, COMPATIBLE, "column sku is no longer written"),
    (TO_TOPIC, {"columns": (("sku", "binary", True), STATEFUL.columns[1])}, COMPATIBLE,
     "column sku string → binary: from the next batch on"),
    (STATELESS, {"columns": (("sku", "string", False), STATEFUL.columns[1])}, COMPATIBLE,
     "column sku can no longer be null"),
    (STATELESS, {"columns": STATEFUL.columns[::-1]}, COMPATIBLE, "columns are in another order"),
    (STATELESS, {"whole": "v"}, COMPATIBLE, "steps without state changed: from the next batch on"),
    (STATELESS, {"sources": changed_source(parser="p")}, COMPATIBLE,
     "the parser of orders changed: from the next batch on"),
    (STATELESS, {"checks": (("positive", "n >= 0", "keep", 1.0),)}, COMPATIBLE,
     'check "positive": condition "n > 0" → "n >= 0": from the next batch on'),
    (STATELESS, {"checks": (("positive", "n > 0", "fail", 0.5),)}, COMPATIBLE,
     'check "positive": outcome "keep" → "fail", at_least "1.0" → "0.5": from the next batch on'),
    (STATELESS, {"checks": ()}, COMPATIBLE, 'check "positive" is removed: from the next batch on'),
    (STATELESS, {"checks": (*STATEFUL.checks, ("x", "true", "drop", 1.0))}, COMPATIBLE,
     'check "x" is added: from the next batch on'),
]  # fmt: skip


@pytest.mark.parametrize(("before", "change", "verdict", "sentence"), CHANGES)
def test_each_kind_of_change_has_its_verdict_and_sentence(
    before: FlowPrint, change: dict[str, Any], verdict: Verdict, sentence: str
) -> None:
    found = compare(before, replace(before, **change))
    assert found.verdict is verdict
    assert sentence in found.sentence
    assert bool(found.differences) is (verdict is not Verdict.SAME)


def test_the_worst_of_several_changes_is_the_verdict() -> None:
    after = replace(STATEFUL, functions={"paid": "2"}, checks=())
    assert compare(STATEFUL, after).verdict is MEANING
    after = replace(after, columns=STATEFUL.columns[1:])
    assert compare(STATEFUL, after).verdict is INCOMPATIBLE


def test_a_flow_without_a_change_is_the_same() -> None:
    for each in (STATEFUL, STATELESS, TO_TOPIC):
        assert compare(each, FlowPrint.from_json(each.to_json())).verdict is Verdict.SAME
        assert compare(each, each).sentence == ""


def test_equal_digests_mean_equal_prints() -> None:
    digests = {STATEFUL.digest}
    for before, change, _, _ in CHANGES:
        digests.add(replace(STATEFUL, **change).digest)  # type: ignore[arg-type]
        assert before.digest == FlowPrint.from_json(before.to_json()).digest
    assert len(digests) > len(CHANGES) - 5


SLIDING = "((({at}#1 - 0) % 60000000) < cast(0 as bigint)) + 300000000), LongType, TimestampType))"


def test_windows_are_described_with_size_and_slide() -> None:
    before = replace(STATEFUL, stateful=(f"Project [{SLIDING} AS window#9]",))
    text = SLIDING.replace("60000000", "300000000").replace("300000000)", "7200000000)", 2)
    after = replace(STATEFUL, stateful=(f"Project [{text} AS window#9]",))
    found = compare(before, after)
    assert "window 5 minutes every 1 minute → " in found.sentence
