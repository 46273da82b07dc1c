"""Differences of a broker's answers from those of RabbitMQ."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from tests.outside.amqp.management.replay import Line
from tests.outside.amqp.management.steps import Step

HEADERS = ("location", "www-authenticate")
"""Headers that clients act on."""
OWN = frozenset({"amq.rabbitmq.log", "internal_cluster_id", "cluster_tags"})
"""Listed objects that RabbitMQ makes for itself."""
ABSENT = "-"
SHOWN_CHARACTERS_MAX = 120
KEYS = (
    "vhost", "name", "user", "source", "destination", "destination_type", "properties_key",
    "component", "routing_key", "consumer_tag", "hash",
)  # fmt: skip
"""Fields that tell the objects of a list apart."""


class Difference(NamedTuple):
    """A field of an answer that differs from RabbitMQ's. `-`: it is absent."""

    call: str
    field: str
    """`answer`, `status`, `error`, `reason`, `names`, a header, or the path of a field of the body,
    with `*` for any element of a list; a list has `/length` and `/order`."""
    golden: str
    other: str


class Marks(NamedTuple):
    """Paths of a recorded answer that are compared in part."""

    volatile: frozenset[str]
    """Values differ between two runs: the type alone is compared."""
    erlang: frozenset[str]
    """Fields of Erlang's machine and of RabbitMQ's processes: they may be missing."""


def differences(
    golden: Mapping[str, Line], other: Mapping[str, Line], scenario: Iterable[Step]
) -> Iterator[Difference]:
    """Yield the differences of all recorded steps; a call without an answer has one."""
    for step in scenario:
        if not step.recorded:
            continue
        if step.id not in other:
            yield Difference(step.id, "answer", "recorded", ABSENT)
        else:
            yield from compared(step, golden[step.id], other[step.id])


def compared(step: Step, golden: Line, other: Line) -> Iterator[Difference]:
    """Yield the differences of one answer; of another status nothing else is compared."""
    if golden.get("status") != other.get("status"):
        yield _difference(step, "status", golden.get("status"), other.get("status"))
    elif step.by_role:
        yield from _of_role(step, golden, other)
    else:
        if not step.client:
            yield from _headers(step, golden, other)
        if "text" not in golden:
            yield from _bodies(step, golden, other)


def _of_role(step: Step, golden: Line, other: Line) -> Iterator[Difference]:
    for field in ("error", "reason"):
        if golden[field] != other[field]:
            yield _difference(step, field, golden[field], other[field])
    left, right = (sorted({*line.get("names", ())} - OWN) for line in (golden, other))
    if left != right:
        yield _difference(step, "names", left, right)


def _headers(step: Step, golden: Line, other: Line) -> Iterator[Difference]:
    names = HEADERS if "text" in golden else (*HEADERS, "content-type")
    for name in names:
        left, right = (line["headers"].get(name) for line in (golden, other))
        if left != right:
            yield _difference(step, name, left or ABSENT, right or ABSENT)


def _bodies(step: Step, golden: Line, other: Line) -> Iterator[Difference]:
    field = "result" if step.client else "body"
    left, right = (arranged(line.get(field), step.unordered) for line in (golden, other))
    marks = Marks(frozenset(golden.get("volatile", ())), frozenset(golden.get("erlang", ())))
    found = dict.fromkeys(
        _difference(step, path or "/", *values) for path, *values in walk(left, right, "", marks)
    )
    yield from found


def walk(left: Any, right: Any, path: str, marks: Marks) -> Iterator[tuple[str, Any, Any]]:
    """Yield the path and both values of each difference.

    A field more than RabbitMQ has is no difference: clients ignore it. One that is null may be
    missing.
    """
    if path in marks.volatile:
        kinds = kind(left), kind(right)
        if "null" not in kinds and kinds[0] != kinds[1]:
            yield path, *kinds
    elif kind(left) != kind(right):
        yield path, left, right
    elif isinstance(left, dict):
        for key, value in left.items():
            below = f"{path}/{key.replace('/', '~1')}"
            if key in right:
                yield from walk(value, right[key], below, marks)
            elif value is not None and below not in marks.erlang:
                yield below, value, ABSENT
    elif isinstance(left, list):
        yield from _lists(left, right, path, marks)
    elif left != right:
        yield path, left, right


def _lists(left: list[Any], right: list[Any], path: str, marks: Marks) -> Iterator[Any]:
    """Yield the differences of two lists: objects of one name are compared, the others in turn."""
    if len(left) != len(right):
        yield f"{path}/length", len(left), len(right)
    theirs, ours = ({_key(row): row for row in rows} for rows in (left, right))
    if len(ours) != len(right) or len(theirs) != len(left):
        theirs, ours = ({str(at): row for at, row in enumerate(rows)} for rows in (left, right))
    common = [key for key in theirs if key in ours]
    if common != [key for key in ours if key in theirs]:
        yield f"{path}/order", left, right
    pairs = [(theirs.pop(key), ours.pop(key)) for key in common]
    if len(left) == len(right):
        pairs += zip(theirs.values(), ours.values(), strict=True)
    for one, another in pairs:
        yield from walk(one, another, f"{path}/*", marks)


def kind(value: Any) -> str:
    """Return the type of a value, as JSON names it."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"


def arranged(value: Any, is_unordered: bool) -> Any:
    """Return a value without RabbitMQ's own objects; lists without a promised order are sorted."""
    match value:
        case list():
            rows = [arranged(row, is_unordered) for row in value if not _is_own(row)]
            return sorted(rows, key=_key) if is_unordered else rows
        case dict():
            return {key: arranged(each, is_unordered) for key, each in value.items()}
    return value


def _is_own(row: Any) -> bool:
    return isinstance(row, dict) and row.get("name") in OWN


def _key(row: Any) -> str:
    if isinstance(row, dict) and any(key in row for key in KEYS):
        return json.dumps([str(row.get(key)) for key in KEYS])
    return json.dumps(row, sort_keys=True)


def _difference(step: Step, field: str, golden: Any, other: Any) -> Difference:
    return Difference(step.id, field, shown(golden), shown(other))


def shown(value: Any) -> str:
    """Return a value as one short line."""
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_CHARACTERS_MAX else line[: SHOWN_CHARACTERS_MAX - 1] + "…"
