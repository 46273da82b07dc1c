"""The nodes of a compiled SQL92 filter.

Logic has three values: a comparison with a property that the message does not have is UNKNOWN
(None), NOT UNKNOWN is UNKNOWN, and only TRUE delivers a message.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from operator import ge, gt, le, lt
from typing import NamedTuple

from headrace.subscriptions.sql.values import Value, difference, equal

Properties = Mapping[str, str]
Evaluate = Callable[[Properties], Value]
_SEARCH_COST = 8
"""The cost of a search in a text; a comparison costs 1."""
ORDERS: dict[str, Callable[[int, int], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}


class NodeKind(Enum):
    """The kinds of nodes, as far as the grammar distinguishes them."""

    PROPERTY = auto()
    NUMBER = auto()
    TEXT = auto()
    TRUTH = auto()
    """TRUE, FALSE or NULL."""
    NEGATIVE = auto()
    """A number with its sign changed; UNKNOWN for other values."""
    CONDITION = auto()


class Node(NamedTuple):
    """A part of an expression."""

    kind: NodeKind
    evaluate: Evaluate
    value: Value = None
    """Of a constant; a property's name."""
    depth: int = 1
    """Nodes from here to the farthest leaf."""
    cost: int = 1
    """Nodes below and this one; searches count more."""


def constant(kind: NodeKind, value: Value) -> Node:
    """Return a literal."""
    return Node(kind, lambda properties: value, value)


def named(name: str) -> Node:
    """Return the value of a property: text, or UNKNOWN."""
    return Node(NodeKind.PROPERTY, lambda properties: properties.get(name), name)


def _above(evaluate: Evaluate, *below: Node, kind: NodeKind = NodeKind.CONDITION) -> Node:
    depth = 1 + max(node.depth for node in below)
    return Node(kind, evaluate, None, depth, 1 + sum(node.cost for node in below))


def negative(node: Node) -> Node:
    """Return `-node`."""
    inner = node.evaluate

    def evaluate(properties: Properties) -> Value:
        value = inner(properties)
        return None if isinstance(value, bool | str) or value is None else -value

    return _above(evaluate, node, kind=NodeKind.NEGATIVE)


def truth_of(node: Node) -> Node:
    """Return a property as a condition: as in RocketMQ FALSE, as text is no boolean."""
    inner = node.evaluate
    return _above(lambda properties: None if inner(properties) is None else False, node)


def inverted(node: Node) -> Node:
    """Return `NOT node`, a condition's."""
    inner = node.evaluate

    def evaluate(properties: Properties) -> Value:
        value = inner(properties)
        return None if value is None else not value

    return _above(evaluate, node)


def all_of(nodes: Sequence[Node]) -> Node:
    """Return the conditions joined by AND. The first FALSE decides."""
    return _joined(nodes, False)


def any_of(nodes: Sequence[Node]) -> Node:
    """Return the conditions joined by OR. The first TRUE decides."""
    return _joined(nodes, True)


def _joined(nodes: Sequence[Node], deciding: bool) -> Node:
    if len(nodes) == 1:
        return nodes[0]
    parts = [node.evaluate for node in nodes]

    def evaluate(properties: Properties) -> Value:
        result: bool | None = not deciding
        for part in parts:
            value = part(properties)
            if value is deciding:
                return deciding
            if value is None:
                result = None
        return result

    return _above(evaluate, *nodes)


def equals(left: Node, right: Node) -> Node:
    """Return `left = right`."""
    first, second = left.evaluate, right.evaluate
    return _above(lambda properties: equal(first(properties), second(properties)), left, right)


def is_null(node: Node) -> Node:
    """Return `node IS NULL`: never UNKNOWN."""
    inner = node.evaluate
    return _above(lambda properties: inner(properties) is None, node)


def ordered(left: Node, symbol: str, right: Node) -> Node:
    """Return `left symbol right`; `symbol`: of ORDERS."""
    first, second, holds = left.evaluate, right.evaluate, ORDERS[symbol]

    def evaluate(properties: Properties) -> Value:
        found = difference(first(properties), second(properties))
        return None if found is None else holds(found, 0)

    return _above(evaluate, left, right)


def is_in(node: Node, texts: frozenset[str]) -> Node:
    """Return `node IN (texts)`, a property's."""
    inner = node.evaluate

    def evaluate(properties: Properties) -> Value:
        value = inner(properties)
        return None if value is None else value in texts

    return _above(evaluate, node)


def searched(node: Node, keyword: str, text: str, inverse: bool) -> Node:
    """Return `node CONTAINS text`, or with NOT; `keyword`: also STARTSWITH and ENDSWITH.

    FALSE, with NOT too, if the text is empty or the node's value is no text, as in RocketMQ.
    """
    inner, holds = node.evaluate, _SEARCHES[keyword]

    def evaluate(properties: Properties) -> Value:
        value = inner(properties)
        if value is None:
            return None
        return bool(text) and isinstance(value, str) and holds(value, text) is not inverse

    made = _above(evaluate, node)
    return made._replace(cost=made.cost + _SEARCH_COST)


_SEARCHES: dict[str, Callable[[str, str], bool]] = {
    "CONTAINS": lambda value, text: text in value,
    "STARTSWITH": lambda value, text: value.startswith(text),
    "ENDSWITH": lambda value, text: value.endswith(text),
}
SEARCHES = frozenset(_SEARCHES)
