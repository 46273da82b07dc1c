"""The nodes of a plan of Spark, read from its objects and not from its text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from py4j.java_gateway import JavaObject

    from headrace.pipeline.declarations import TopicSource

STATEFUL = frozenset(
    {
        "Aggregate",
        "Deduplicate",
        "DeduplicateWithinWatermark",
        "Distinct",
        "GlobalLimit",
        "Limit",
    }
)
"""Kinds of nodes that have state on a stream; so have joins of two streams and …State… nodes."""


@dataclass(frozen=True)
class PlanStep:
    """A node of a plan with the nodes below it."""

    node: JavaObject
    kind: str
    streaming: bool
    below: tuple[PlanStep, ...]

    @classmethod
    def of(cls, node: JavaObject) -> PlanStep:
        """Read a node and all below it."""
        children = node.children()
        below = tuple(cls.of(children.apply(number)) for number in range(children.size()))
        return cls(node, node.nodeName(), node.isStreaming(), below)

    @property
    def stateful(self) -> bool:
        """Whether the node keeps state, on a stream."""
        if not self.streaming:
            return False
        joined = self.kind == "Join" and all(step.streaming for step in self.below)
        return joined or self.has_state_on_a_stream

    @property
    def has_state_on_a_stream(self) -> bool:
        """Whether the node keeps state if its rows are a stream; joins depend on both sides."""
        return self.kind in STATEFUL or "State" in self.kind

    def steps(self) -> Iterator[PlanStep]:
        """Yield the node and all below it."""
        yield self
        for step in self.below:
            yield from step.steps()

    def expressions(self) -> Iterator[JavaObject]:
        """Yield the node's own expressions, without those that they contain."""
        expressions = self.node.expressions()
        for number in range(expressions.size()):
            yield expressions.apply(number)

    def output(self) -> Iterator[JavaObject]:
        """Yield the node's columns."""
        output = self.node.output()
        for number in range(output.size()):
            yield output.apply(number)

    def source(self, places: Mapping[str, TopicSource]) -> TopicSource | None:
        """Return the topic that the node reads; None for other nodes.

        `places`: the topic of each directory that stands for one.
        """
        if self.kind != "StreamingRelation":
            return None
        name = self.node.sourceName()
        return next((places[place] for place in places if f"/{place}]" in name), None)


def kind_of(expression: JavaObject) -> str:
    """Return the name of an expression's class."""
    return str(expression.getClass().getSimpleName())


def children_of(expression: JavaObject) -> Iterator[JavaObject]:
    """Yield the expressions that an expression contains."""
    children = expression.children()
    for number in range(children.size()):
        yield children.apply(number)
