"""Targets of HTTP requests: a table of paths with values, and queries.

A path is split at its slashes before it is decoded, so a value may contain `/` as `%2F`.
"""

from typing import Generic, TypeVar
from urllib.parse import parse_qsl, unquote

T = TypeVar("T")
QUERY_FIELDS_MAX = 100
"""Most fields of a query."""


class _Node(Generic[T]):
    """The paths that begin alike: what follows, and the entry of the path that ends here."""

    __slots__ = ("entry", "literals", "names", "value")

    def __init__(self) -> None:
        self.literals: dict[str, _Node[T]] = {}
        self.value: _Node[T] | None = None
        self.entry: T | None = None
        self.names: tuple[str, ...] = ()


class PathTable(Generic[T]):
    """Entries by path pattern: `/queues/{vhost}/{name}` has two values.

    A literal segment is preferred to a value: `/queues/detailed` to `/queues/{vhost}`.
    """

    def __init__(self) -> None:
        self._root = _Node[T]()

    def add(self, pattern: str, entry: T) -> None:
        """Add the entry of a pattern, which replaces an earlier one of the same pattern."""
        node, names = self._root, list[str]()
        for segment in pattern.split("/"):
            if segment.startswith("{"):
                names.append(segment[1:-1])
                node.value = node.value or _Node()
                node = node.value
            else:
                node = node.literals.setdefault(segment, _Node())
        node.entry, node.names = entry, tuple(names)

    def find(self, path: str) -> tuple[T, dict[str, str]] | None:
        """Return the entry of a path and its decoded values, or None. A value is never empty.

        Raises ValueError if a value is not percent-encoded UTF-8.
        """
        found = _find(self._root, path.split("/"), 0, [])
        if found is None or found[0].entry is None:
            return None
        node, values = found
        return found[0].entry, dict(zip(node.names, map(decoded, values), strict=True))


def _find(
    node: _Node[T], segments: list[str], at: int, values: list[str]
) -> tuple[_Node[T], list[str]] | None:
    if at == len(segments):
        return None if node.entry is None else (node, values)
    segment = segments[at]
    literal = node.literals.get(segment)
    if literal is not None:
        found = _find(literal, segments, at + 1, values)
        if found is not None:
            return found
    if node.value is None or not segment:
        return None
    return _find(node.value, segments, at + 1, [*values, segment])


def decoded(segment: str) -> str:
    """Return a path segment without percent-encoding. Raises ValueError if it is not UTF-8."""
    return unquote(segment, errors="strict")


def query_fields(query: str) -> dict[str, str]:
    """Return the fields of a query; the first of equal names counts, `+` is a space.

    Raises ValueError for more than `QUERY_FIELDS_MAX` fields and for text that is not UTF-8.
    """
    pairs = parse_qsl(
        query, keep_blank_values=True, errors="strict", max_num_fields=QUERY_FIELDS_MAX
    )
    return dict(reversed(pairs))
