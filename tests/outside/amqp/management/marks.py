"""Marks of a recording: what differs between runs, and what other brokers need not have."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tests.outside.amqp.management.compare import ABSENT, Marks, walk
from tests.outside.amqp.management.replay import Line

MARKS = ("volatile", "erlang")


def marked(
    lines: Iterable[Line], others: Sequence[Mapping[str, Line]], known: Mapping[str, Line]
) -> Iterator[Line]:
    """Yield answers with their marks: those of the known recording, and what other runs show.

    A call that the known recording lacks gets a mark for each field whose name has that mark
    wherever the recording has the name.
    """
    names = {mark: _always(known.values(), mark) for mark in MARKS}
    for line in lines:
        found: dict[str, set[str]] = {
            mark: set(known[line["id"]].get(mark, ()))
            if line["id"] in known
            else {path for path in _paths(_content(line), "") if _name(path) in names[mark]}
            for mark in MARKS
        }
        for other in others:
            for path, is_missing in _differing(line, other.get(line["id"], line)):
                found["erlang" if is_missing else "volatile"].add(path)
        yield line | {mark: sorted(paths) for mark, paths in found.items() if paths}


def _differing(line: Line, other: Line) -> Iterator[tuple[str, bool]]:
    """Yield the path of each difference of two runs, and whether the other lacks the field."""
    nothing: Marks = Marks(frozenset(), frozenset())
    for path, _, right in walk(_content(line), _content(other), "", nothing):
        yield path.removesuffix("/length").removesuffix("/order"), right is ABSENT


def _always(lines: Iterable[Line], mark: str) -> set[str]:
    """Return the names of fields that have a mark wherever they are."""
    having: set[str] = set()
    lacking: set[str] = set()
    for line in lines:
        paths = set(line.get(mark, ()))
        for path in _paths(_content(line), ""):
            (having if path in paths else lacking).add(_name(path))
    return having - lacking


def _paths(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            below = f"{path}/{key.replace('/', '~1')}"
            yield below
            yield from _paths(each, below)
    elif isinstance(value, list):
        for each in value:
            yield from _paths(each, f"{path}/*")


def _content(line: Line) -> Any:
    return line.get("result", line.get("body"))


def _name(path: str) -> str:
    return path.rpartition("/")[2]
