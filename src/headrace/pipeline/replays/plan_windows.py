"""The time windows of a flow, from the objects of its analysed plan.

Spark's analyser replaces `window(…)` by a struct with `start` and `end`, both converted from
microseconds: the end is the start plus the window's length. Its column has a mark in its metadata.

    PreciseTimestampConversion( Add(<start>, Literal(900000000)), LongType, TimestampType )
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.pipeline.plan.plan_step import children_of, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from py4j.java_gateway import JavaObject

    from headrace.pipeline.plan.plan_step import PlanStep

_SESSION = "spark.sessionWindow"
_CONVERSION = "PreciseTimestampConversion"


def longest_window_ms(plan: PlanStep) -> int:
    """Return the length of the plan's longest time window, rounded up; 0 without a window."""
    lengths = [length for step in plan.steps() if (length := _window_us(step)) is not None]
    return -(-max(lengths, default=0) // 1000)


def has_session_windows(plan: PlanStep) -> bool:
    """Return whether the plan has session windows, whose length the records decide."""
    return any(
        column.metadata().contains(_SESSION) for step in plan.steps() for column in step.output()
    )


def has_outer_join(plan: PlanStep) -> bool:
    """Return whether the plan has a join that also writes rows without a match."""
    return any(
        step.kind == "Join" and str(step.node.joinType().sql()) not in ("INNER", "CROSS")
        for step in plan.steps()
    )


def _window_us(step: PlanStep) -> int | None:
    """Return the length of the window that a node computes, in microseconds.

    A node computes one at most: with sliding windows several times, of the same length.
    """
    return next((found for each in step.expressions() for found in _lengths_us(each)), None)


def _lengths_us(expression: JavaObject) -> Iterator[int]:
    if kind_of(expression) == _CONVERSION and kind_of(expression.child()) == "Add":
        added = expression.child().right()
        if kind_of(added) == "Literal":
            yield int(added.value())
            return
    for child in children_of(expression):
        yield from _lengths_us(child)
