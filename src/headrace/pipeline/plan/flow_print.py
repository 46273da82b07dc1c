"""The print of a flow: everything that its checkpoint and its target depend on, as a value.

Two prints are compared to tell whether a flow may go on with its checkpoint. A print has no
expression ids, UUIDs, addresses or paths, so it is equal in two sessions.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class PrintedSource:
    """A topic that a flow reads."""

    topic: str
    columns: str
    """All columns of its rows as a DDL string."""
    parser: str | None
    """Digest of the function that decodes its values; None: JSON objects."""
    heartbeats: bool
    used: tuple[str, ...] = ()
    """Columns that the stateful part of the plan refers to, with their types."""


@dataclass(frozen=True)
class Operator:
    """A stateful operator, as Spark describes it in a checkpoint."""

    name: str
    stores: Mapping[str, tuple[Any, ...]]
    """By store: the schemas of key and value, as Spark's JSON."""


@dataclass(frozen=True)
class PrintedTarget:
    """The table or sink that a flow writes to."""

    name: str
    kind: str
    """table or sink."""
    format: str
    """The table's format, or the sink's topic."""
    partitions: tuple[str, ...] = ()


@dataclass(frozen=True)
class FlowPrint:
    """Everything that a flow's checkpoint and target depend on."""

    target: PrintedTarget
    sources: tuple[PrintedSource, ...]
    """In the order of the plan, in which Spark numbers them."""
    operators: tuple[Operator, ...]
    """The state's schema, from a run without rows."""
    stateful: tuple[str, ...]
    """The lines of the analysed plan up to the last stateful step."""
    functions: Mapping[str, str]
    """Digests of the Python functions in the stateful part."""
    columns: tuple[tuple[str, str, bool], ...]
    """Name, type and nullability of the columns of the rows."""
    checks: tuple[tuple[str, str, str, float], ...]
    """Name, condition, outcome and share of each check."""
    whole: str
    """Digest of the whole analysed plan and of all its Python functions."""

    @property
    def digest(self) -> str:
        """The print as 64 hexadecimal digits."""
        return digest_of(self.to_json())

    def to_json(self) -> dict[str, Any]:
        """Return the print as a JSON object."""
        found: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return found

    @staticmethod
    def from_json(found: Mapping[str, Any]) -> FlowPrint:
        """Return the print of a JSON object; KeyError or TypeError for another object."""
        return FlowPrint(
            target=PrintedTarget(**_tuples(found["target"])),
            sources=tuple(PrintedSource(**_tuples(each)) for each in found["sources"]),
            operators=tuple(
                Operator(each["name"], {name: tuple(both) for name, both in each["stores"].items()})
                for each in found["operators"]
            ),
            stateful=tuple(found["stateful"]),
            functions=dict(found["functions"]),
            columns=tuple((name, kind, nullable) for name, kind, nullable in found["columns"]),
            checks=tuple((name, text, kind, share) for name, text, kind, share in found["checks"]),
            whole=found["whole"],
        )


def digest_of(value: object) -> str:
    """Return a digest of a JSON value as 64 hexadecimal digits."""
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _tuples(found: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(each) if isinstance(each, list) else each for key, each in found.items()}
