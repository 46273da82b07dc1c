"""The verdict on a change of a flow: whether its checkpoint and its target can go on.

Spark compares the state's operators and the types of their keys and values with the checkpoint, and
the number of sources. Everything else that a checkpoint depends on is compared here only.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from headrace.pipeline.plan.describe import changes_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.pipeline.plan.flow_print import FlowPrint, Operator


class Verdict(Enum):
    """The effect of a change on the flow's checkpoint."""

    SAME = "same"
    COMPATIBLE = "compatible"
    """The flow goes on; its next batch is of the new definition."""
    MEANING = "meaning changes"
    """Spark would go on, and rows of both meanings would be mixed."""
    INCOMPATIBLE = "incompatible"
    """Spark or the table refuses to go on."""
    NEW = "new"
    GONE = "gone"


@dataclass(frozen=True)
class Comparison:
    """A verdict, and what differs."""

    verdict: Verdict
    differences: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """Return the differences as one text."""
        return "; ".join(self.differences)


def compare(before: FlowPrint, after: FlowPrint) -> Comparison:
    """Compare the applied print of a flow with its print now."""
    for verdict, differences in (
        (Verdict.INCOMPATIBLE, _refused),
        (Verdict.MEANING, _meaning),
        (Verdict.COMPATIBLE, _compatible),
    ):
        if found := tuple(differences(before, after)):
            return Comparison(verdict, found)
    return Comparison(Verdict.SAME)


def _refused(before: FlowPrint, after: FlowPrint) -> Iterator[str]:
    yield from _refused_by_spark(before, after)
    yield from _refused_by_table(before, after)


def _refused_by_spark(before: FlowPrint, after: FlowPrint) -> Iterator[str]:
    old, new = ([source.topic for source in each.sources] for each in (before, after))
    if sorted(old) != sorted(new):
        yield _topics(old, new)
    if _names(before) != _names(after):
        yield f"stateful steps {_steps(before)} → {_steps(after)}" + _because(before, after)
    elif any(
        _shape(old) != _shape(new)
        for old, new in zip(before.operators, after.operators, strict=True)
    ):
        yield "the state has other types" + _because(before, after)


def _refused_by_table(before: FlowPrint, after: FlowPrint) -> Iterator[str]:
    old, new = before.target, after.target
    if (old.name, old.kind) != (new.name, new.kind):
        yield f"writes to {new.kind} {new.name} instead of {old.kind} {old.name}"
    elif new.kind == "table":
        if old.format != new.format:
            yield f"the table's format {old.format} → {new.format}"
        if old.partitions != new.partitions:
            yield f"partition_cols {_listed(old.partitions)} → {_listed(new.partitions)}"
        now = {name: kind for name, kind, _ in after.columns}
        for name, kind, _ in before.columns:
            if name not in now:
                yield f"column {name} is no longer written to the table"
            elif now[name] != kind:
                yield f"column {name} {kind} → {now[name]}"


def _meaning(before: FlowPrint, after: FlowPrint) -> Iterator[str]:
    if before.target.kind == "sink" and before.target.format != after.target.format:
        yield f"writes to topic {after.target.format} instead of {before.target.format}"
    topics = [source.topic for source in after.sources]
    if [source.topic for source in before.sources] != topics:
        yield (
            f"sources are in another order, {', '.join(topics)}: each would continue at another's "
            "offsets"
        )
    if not before.operators and not after.operators:
        return
    changes = list(changes_of(before, after))
    if changes:
        yield from changes
    elif before.operators != after.operators:
        yield "the state's columns have other names"


def _compatible(before: FlowPrint, after: FlowPrint) -> Iterator[str]:
    columns = {name: (kind, nullable) for name, kind, nullable in before.columns}
    added = [f"{name} {kind}" for name, kind, _ in after.columns if name not in columns]
    if added:
        rows = "its earlier rows are null in it" if len(added) == 1 else "earlier rows are null"
        where = f"added to the table, {rows}" if after.target.kind == "table" else "added"
        yield f"column{'s' if len(added) > 1 else ''} {', '.join(added)}: {where}"
    now = {name: kind for name, kind, _ in after.columns}
    for name, (kind, _) in columns.items():  # of a topic sink: a table refuses both
        if name not in now:
            yield f"column {name} is no longer written: from the next batch on"
        elif now[name] != kind:
            yield f"column {name} {kind} → {now[name]}: from the next batch on"
    for name, kind, nullable in after.columns:
        if columns.get(name, (kind, nullable)) == (kind, not nullable):
            yield f"column {name} {'may now' if nullable else 'can no longer'} be null"
    yield from _checks(before, after)
    if before.whole != after.whole and not added:
        yield "steps without state changed: from the next batch on"
    for old, new in zip(before.sources, after.sources, strict=True):
        if old.parser != new.parser:
            yield f"the parser of {new.topic} changed: from the next batch on"
        if old.columns != new.columns and not added:
            yield f"columns of topic {new.topic} changed: from the next batch on"
        if old.heartbeats != new.heartbeats:
            yield f"heartbeats of {new.topic} are {'on' if new.heartbeats else 'off'} from now on"
    names = [[name for name, _, _ in each.columns] for each in (before, after)]
    if names[0] != names[1] and sorted(names[0]) == sorted(names[1]):
        yield "columns are in another order"


def _checks(before: FlowPrint, after: FlowPrint) -> Iterator[str]:
    old = {check[0]: check[1:] for check in before.checks}
    new = {check[0]: check[1:] for check in after.checks}
    for name in new:
        if name not in old:
            yield f'check "{name}" is added: from the next batch on'
        elif old[name] != new[name]:
            pairs = zip(("condition", "outcome", "at_least"), old[name], new[name], strict=True)
            parts = [f'{what} "{was}" → "{now}"' for what, was, now in pairs if was != now]
            yield f'check "{name}": {", ".join(parts)}: from the next batch on'
    for name in old:
        if name not in new:
            yield f'check "{name}" is removed: from the next batch on'


def _topics(old: list[str], new: list[str]) -> str:
    remaining, added = list(old), []
    for topic in new:
        if topic in remaining:
            remaining.remove(topic)
        else:
            added.append(topic)
    parts = [f"source {topic} is added" for topic in added]
    return ", ".join([*parts, *(f"source {topic} is removed" for topic in remaining)])


def _because(before: FlowPrint, after: FlowPrint) -> str:
    changes = "; ".join(changes_of(before, after))
    return f": {changes}" if changes else ""


def _names(flow: FlowPrint) -> list[str]:
    return [operator.name for operator in flow.operators]


def _steps(flow: FlowPrint) -> str:
    return ", ".join(_names(flow)) or "none"


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "none"


def _shape(operator: Operator) -> dict[str, tuple[Any, ...]]:
    """Return the types of an operator's state without names, which Spark does not compare."""
    return {
        store: tuple(
            _unnamed(StructType.fromJson(each)) if isinstance(each, dict) else each
            for each in schemas
        )
        for store, schemas in operator.stores.items()
    }


def _unnamed(kind: DataType) -> str:
    match kind:
        case StructType():
            return f"struct<{','.join(_unnamed(column.dataType) for column in kind.fields)}>"
        case ArrayType():
            return f"array<{_unnamed(kind.elementType)}>"
        case MapType():
            return f"map<{_unnamed(kind.keyType)},{_unnamed(kind.valueType)}>"
        case _:
            return kind.simpleString()
