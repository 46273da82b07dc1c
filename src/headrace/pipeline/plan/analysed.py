"""The analysed plan of a flow, cut to its sources and stateful steps, equal in each session.

Masked: expression ids (numbered from 0), UUIDs (each watermark has one), addresses, paths, and
seeds that Spark draws. A step that forwards columns that no step needs is printed without them, so
a column that a topic gains does not change the print of a flow that does not use it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING

from pyspark import cloudpickle

from headrace.pipeline.plan.function_digest import function_digest
from headrace.pipeline.plan.plan_step import PlanStep, children_of, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from py4j.java_gateway import JavaObject
    from pyspark.sql import DataFrame, SparkSession

    from headrace.pipeline.declarations import TopicSource

_ROUNDS_MAX = 100
_LINE_CHARS_MAX = 4_000
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ADDRESS = re.compile(r"@[0-9a-f]{6,}\b|\b0x[0-9a-f]{6,}\b")
_SEED = re.compile(r"\b(rand|randn|uuid)\((?:Some\()?-?\d+\)?\)|\b(Some)\(-?\d{6,}\)")
_DELAY = re.compile(r"(#\d+L?)-T\d+ms")
_ID = re.compile(r"#(\d+)L?")


@dataclass
class Analysed:
    """A flow's analysed plan, cut and masked."""

    topics: list[tuple[TopicSource, tuple[str, ...]]] = field(default_factory=list)
    """The sources in the plan's order, each with the columns that the stateful part refers to."""
    lines: list[str] = field(default_factory=list)
    functions: dict[str, str] = field(default_factory=dict)
    """Digests of the Python functions in the stateful part."""
    steps: int = 0
    """Number of stateful steps that were recognised."""
    everything: list[str] = field(default_factory=list)
    """The whole plan."""
    all_functions: dict[str, str] = field(default_factory=dict)

    @property
    def whole(self) -> str:
        """Return a digest of the whole plan and its functions."""
        functions = [f"{name} {digest}" for name, digest in sorted(self.all_functions.items())]
        return sha256("\n".join([*self.everything, *functions]).encode()).hexdigest()

    def cut(self, operators: int) -> tuple[list[str], dict[str, str]]:
        """Return lines and functions of the stateful part.

        `operators`: the number of stateful operators that Spark has for the plan. If it has more
        than were recognised here, the whole plan is the stateful part.
        """
        if operators > self.steps:
            return self.everything, self.all_functions
        return self.lines, self.functions


def analysed(
    spark: SparkSession, rows: DataFrame, places: Mapping[str, TopicSource], directory: Path
) -> Analysed:
    """Return the plan of a flow's rows.

    `places`: the topic of each directory that stands for one. `directory`: the project's.
    """
    root = PlanStep.of(rows._jdf.queryExecution().analyzed())
    found = Analysed()
    everything = list(_lines([root], places))
    found.everything = _masked(everything)
    found.all_functions = _functions(spark, [root], directory)
    found.steps = sum(step.stateful for step in root.steps())
    parts = [PlanStep.of(_pruned(spark, step.node)) for step in _cut(root)]
    text = list(_lines(parts, places))
    if parts:
        # A watermark counts for all of a query's state, also on a branch without any.
        text += [
            line
            for line in everything
            if line.lstrip(" ~").startswith("EventTimeWatermark")
            and _bare(line) not in map(_bare, text)
        ]
    used = set(_ID.findall("\n".join(line for line in text if "Topic " not in line)))
    for step in root.steps():
        if (source := step.source(places)) is not None:
            found.topics.append((source, _used(step, used)))
    found.lines = _masked(text)
    found.functions = _functions(spark, parts, directory)
    return found


def _cut(step: PlanStep) -> Iterator[PlanStep]:
    """Yield the topmost stateful steps."""
    if step.stateful:
        yield step
        return
    for below in step.below:
        yield from _cut(below)


def _pruned(spark: SparkSession, node: JavaObject) -> JavaObject:
    """Return a plan without columns that it forwards and does not use."""
    jvm = spark._jvm
    if jvm is None:
        return node
    catalyst = jvm.org.apache.spark.sql.catalyst
    node = catalyst.analysis.EliminateSubqueryAliases.apply(node)
    for _ in range(_ROUNDS_MAX):
        pruned = catalyst.optimizer.ColumnPruning.apply(node)
        if pruned.fastEquals(node):
            break
        node = pruned
    return node


def _lines(
    parts: list[PlanStep], places: Mapping[str, TopicSource], depth: int = 0
) -> Iterator[str]:
    for step in parts:
        source = step.source(places)
        text = f"Topic {source.name}" if source else step.node.simpleString(_LINE_CHARS_MAX)
        yield f"{' ' * depth}{text}"
        yield from _lines(list(step.below), places, depth + 1)


def _used(step: PlanStep, used: set[str]) -> tuple[str, ...]:
    return tuple(
        f"{column.name()} {column.dataType().sql()}"
        for column in step.output()
        if str(column.exprId().id()) in used
    )


def _bare(line: str) -> str:
    return _UUID.sub("", line.strip())


def _masked(lines: list[str]) -> list[str]:
    numbers: dict[str, int] = {}

    def number(found: re.Match[str]) -> str:
        return f"#{numbers.setdefault(found[1], len(numbers))}"

    masked = []
    for line in lines:
        text = _ADDRESS.sub("", _UUID.sub("", _DELAY.sub(r"\1", line)))
        masked.append(_short(_ID.sub(number, _SEED.sub(r"\1\2()", text))))
    return masked


def _short(line: str) -> str:
    """Return a line of bounded length: sliding windows have an expression for each slide."""
    if len(line) <= _LINE_CHARS_MAX:
        return line
    return f"{line[:_LINE_CHARS_MAX]}… {sha256(line.encode()).hexdigest()[:16]}"


def _functions(spark: SparkSession, parts: list[PlanStep], directory: Path) -> dict[str, str]:
    """Return the digests of the Python functions that a plan calls, by name and number."""
    found: dict[str, str] = {}
    if spark._jvm is None:
        return found
    pattern = spark._jvm.org.apache.spark.sql.catalyst.trees.TreePattern.PYTHON_UDF()
    for part in parts:
        for step in part.steps():
            for expression in step.expressions():
                for call in _calls(expression, pattern):
                    digest = _of_call(call, directory)
                    name = call.name()
                    same = [each for each in found if each.partition(" ")[0] == name]
                    if digest not in (found[each] for each in same):
                        found[f"{name} {len(same) + 1}" if same else name] = digest
    return found


def _calls(expression: JavaObject, pattern: JavaObject) -> Iterator[JavaObject]:
    if not expression.containsPattern(pattern):
        return
    if kind_of(expression).startswith("Python"):
        yield expression
    for child in children_of(expression):
        yield from _calls(child, pattern)


def _of_call(call: JavaObject, directory: Path) -> str:
    command = bytes(call.func().command().unsafeArray())
    try:
        function = cloudpickle.loads(command)
    except Exception:  # noqa: BLE001 - of a function that is not readable here, the bytes count
        return sha256(command).hexdigest()[:16]
    return function_digest(function[0] if isinstance(function, tuple) else function, directory)
