"""Sentences for the differences between the stateful parts of two prints."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.pipeline.plan.flow_print import FlowPrint

_TEXT_CHARS_MAX = 120
_ID = re.compile(r"#\d+")
_WATERMARK = re.compile(r"EventTimeWatermark\W*(\w+)[^:]*: \w+, (.*)")
_WINDOW = re.compile(r"% (\d+)\) < .*?\+ (\d+)\), LongType, Timestamp\w*Type\)\)\)? ?")
_UNITS = (
    ("day", 86_400_000_000),
    ("hour", 3_600_000_000),
    ("minute", 60_000_000),
    ("second", 1_000_000),
    ("millisecond", 1_000),
    ("microsecond", 1),
)


def changes_of(before: FlowPrint, after: FlowPrint) -> Iterator[str]:
    """Yield a sentence for each difference of the stateful parts; none if they are equal."""
    yield from _sources(before, after)
    for name in sorted(before.functions.keys() | after.functions.keys()):
        digests = before.functions.get(name), after.functions.get(name)
        if None not in digests and digests[0] != digests[1]:
            yield f"function {name.partition(' ')[0]} changed"
    if before.stateful != after.stateful:
        found = list(_plans(before.stateful, after.stateful))
        yield from found or [_first(before.stateful, after.stateful)]


def _sources(before: FlowPrint, after: FlowPrint) -> Iterator[str]:
    if [source.topic for source in before.sources] != [source.topic for source in after.sources]:
        return  # The verdict on the sources says so.
    for old, new in zip(before.sources, after.sources, strict=True):
        if old.parser != new.parser:
            yield f"the parser of {new.topic} changed"
        if old.heartbeats != new.heartbeats:
            yield f"heartbeats of {new.topic} are {'on' if new.heartbeats else 'off'}"
        if sorted(old.used) != sorted(new.used):
            gone = ", ".join(each for each in old.used if each not in new.used) or "nothing"
            come = ", ".join(each for each in new.used if each not in old.used) or "nothing"
            yield f"uses {come} of {new.topic} instead of {gone}"


def _plans(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    yield from _pairs("watermark of ", _watermarks(before), _watermarks(after))
    old, new = _windows(before), _windows(after)
    if old != new:
        yield f"window {' and '.join(old) or 'none'} → {' and '.join(new) or 'none'}"
    for kind, words in (("Aggregate", ("groups by", "computes")), ("Deduplicate", ("keys",))):
        steps = [[_lists(line) for line in each if _kind(line) == kind] for each in (before, after)]
        for was, now in zip(*steps, strict=False):
            for word, left, right in zip(words, was, now, strict=False):
                if kind == "Aggregate" and word == "computes":
                    left, right = _without(left, was[0]), _without(right, now[0])
                if left != right:
                    yield f"{word} ({', '.join(left)}) → ({', '.join(right)})"
    yield from _conditions("filter", "Filter", before, after)
    yield from _conditions("join", "Join", before, after)


def _pairs(what: str, old: dict[str, str], new: dict[str, str]) -> Iterator[str]:
    for name in sorted(old.keys() | new.keys()):
        was, now = old.get(name, "none"), new.get(name, "none")
        if was != now:
            yield f"{what}{name} {was} → {now}"


def _conditions(word: str, kind: str, before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    old, new = (
        [_plain(line).partition(" ")[2] for line in each if _kind(line) == kind]
        for each in (before, after)
    )
    gone = [each for each in old if each not in new]
    come = [each for each in new if each not in old]
    for was, now in zip(gone, come, strict=False):
        yield f"{word} {_short(was)} → {_short(now)}"
    for each in come[len(gone) :]:
        yield f"{word} {_short(each)} is added"
    for each in gone[len(come) :]:
        yield f"{word} {_short(each)} is removed"


def _watermarks(lines: Sequence[str]) -> dict[str, str]:
    found = (_WATERMARK.match(_plain(line)) for line in lines)
    return {each[1]: each[2] for each in found if each is not None}


def _windows(lines: Sequence[str]) -> list[str]:
    found = []
    for line in lines:
        if (window := _WINDOW.search(line)) is not None:
            slide, size = int(window[1]), int(window[2])
            every = "" if slide == size else f" every {_duration(slide)}"
            found.append(f"{_duration(size)}{every}")
    return found


def _duration(micros: int) -> str:
    for unit, size in _UNITS:
        if micros % size == 0 and micros >= size:
            count = micros // size
            return f"{count} {unit}{'' if count == 1 else 's'}"
    return f"{micros} microseconds"


def _lists(line: str) -> list[list[str]]:
    """Return the items of each list in brackets of a line, commas in inner brackets aside."""
    found: list[list[str]] = []
    depth = 0
    for character in _plain(line):
        if character in "[(":
            depth += 1
            if depth == 1 and character == "[":
                found.append([""])
                continue
        elif character in "])":
            depth -= 1
            if depth == 0:
                continue
        if depth == 1 and character == "," and found:
            found[-1].append("")
        elif depth >= 1 and found:
            found[-1][-1] += character
    return [[item.strip() for item in items if item.strip()] for items in found]


def _without(items: list[str], keys: list[str]) -> list[str]:
    return [item for item in items if item not in keys]


def _kind(line: str) -> str:
    return re.split(r"\W", _plain(line), maxsplit=1)[0]


def _plain(line: str) -> str:
    """Return a line without indentation, marks and ids."""
    return _ID.sub("", line).strip().lstrip("~'").strip()


def _first(before: Sequence[str], after: Sequence[str]) -> str:
    """Return the first lines that differ."""
    for was, now in zip(before, after, strict=False):
        if was != now:
            return f"step {_short(_plain(was))} → {_short(_plain(now))}"
    longer, verb = (before, "removed") if len(before) > len(after) else (after, "added")
    return f"step {_short(_plain(longer[min(len(before), len(after))]))} is {verb}"


def _short(text: str) -> str:
    return text if len(text) <= _TEXT_CHARS_MAX else f"{text[:_TEXT_CHARS_MAX]}…"
