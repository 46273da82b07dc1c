"""Whether each row of a flow is one record of one topic, so that a check can quarantine it.

A record that gives two rows could be in the table and in the quarantine. A row of a stateful step
comes from many records, or, replayed, meets the state that it has left. So only steps that treat
each row by itself are allowed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from py4j.java_gateway import JavaObject
    from pyspark.sql import DataFrame

_ROW_BY_ROW = frozenset(
    {
        "CollectMetrics",
        "EventTimeWatermark",
        "Filter",
        "Project",
        "RebalancePartitions",
        "Repartition",
        "RepartitionByExpression",
        "ResolvedHint",
        "StreamingRelation",
        "StreamingRelationV2",
        "SubqueryAlias",
        "View",
    }
)
"""Names of the plan's steps that give at most one row for each row, by that row alone."""
_WORDS = {
    "Aggregate": "an aggregation",
    "Deduplicate": "dropDuplicates",
    "DeduplicateWithinWatermark": "dropDuplicatesWithinWatermark",
    "Distinct": "distinct",
    "Generate": "explode",
    "GlobalLimit": "limit",
    "Join": "a join",
    "Union": "a union",
}
_POSITION = ("_partition", "_offset")


def untraced(rows: DataFrame) -> str | None:
    """Return why a row cannot be traced to the one record that it is from; None if it can."""
    plan = rows._jdf.queryExecution().analyzed()
    for step in _steps(plan):
        if step.nodeName() not in _ROW_BY_ROW:
            kind = _WORDS.get(step.nodeName(), step.nodeName())
            return (
                f"rows behind {kind} are not single records, which a quarantine needs: use"
                " expect_or_drop or expect_or_fail, or check them in a flow before it"
            )
    found = {name: number for name, number in _columns(plan) if name in _POSITION}
    if len(found) < len(_POSITION):
        return (
            "a quarantine needs the records' positions: keep the columns _partition and _offset of"
            " hp.topic"
        )
    read = {number for leaf in _all(plan.collectLeaves()) for _, number in _columns(leaf)}
    for name, number in found.items():
        if number not in read:
            return f"a quarantine needs the records' positions: {name} is not the one of hp.topic"
    return None


def _steps(plan: JavaObject) -> Iterator[JavaObject]:
    yield plan
    for below in _all(plan.children()):
        yield from _steps(below)


def _columns(step: JavaObject) -> list[tuple[str, int]]:
    """Return names and expression ids of a step's columns."""
    return [(column.name(), column.exprId().id()) for column in _all(step.output())]


def _all(found: JavaObject) -> list[JavaObject]:
    return [found.apply(number) for number in range(found.size())]
