"""Each array of a hot message is held to the fewest bytes of what it counts, no more, no less."""

import dataclasses
import datetime
import sys
import types
import typing
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from headrace.wire.kafka import kio_codec
from headrace.wire.kafka.api import VERSIONS
from headrace.wire.kafka.reader import CompactReader, Reader
from tests.property.wire.test_wire_hot import CODECS
from tests.support.wire.messages import EPOCH

LEAST: dict[str, object] = {
    "string": "", "bytes": b"", "records": b"", "bool": False, "uuid": uuid.UUID(int=0),
    "error_code": ErrorCode.none, "timedelta_i32": datetime.timedelta(0),
    "timedelta_i64": datetime.timedelta(0), "datetime_i64": EPOCH, "float64": 0.0,
}  # fmt: skip
MANY = 60
Names = tuple[str, ...]


def inner(hint: Any) -> Any:
    """The type itself where None may stand for it."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return next(part for part in typing.get_args(hint) if part is not types.NoneType)
    return hint


def arrays(entity_type: Any, above: Names = ()) -> Iterator[Names]:
    """The path of each array of structs or numbers within a message."""
    for name, hint in typing.get_type_hints(entity_type).items():
        kind = inner(hint)
        if typing.get_origin(kind) is tuple:
            yield (*above, name)
            kind = typing.get_args(kind)[0]
        if dataclasses.is_dataclass(kind):
            yield from arrays(kind, (*above, name))


def least(entity_type: Any, path: Names, count: int) -> Any:
    """The smallest message whose array at `path` has `count` elements."""
    hints = typing.get_type_hints(entity_type)
    values: dict[str, Any] = {}
    for field in dataclasses.fields(entity_type):
        kind = inner(hints[field.name])
        on_path = path[:1] == (field.name,)
        if "tag" in field.metadata and not on_path:
            continue
        below = path[1:] if on_path else ()
        if typing.get_origin(kind) is tuple:
            element = typing.get_args(kind)[0]
            number = 0 if not on_path else 1 if below else count
            made = _value(element, field.metadata.get("kafka_type"), below, count)
            values[field.name] = (made,) * number
        else:
            values[field.name] = _value(kind, field.metadata.get("kafka_type"), below, count)
    if entity_type.__name__ == "SupportedFeatureKey":
        values["min_version"] = 1
    return entity_type(**values)


def _value(kind: Any, kafka_type: str | None, path: Names, count: int) -> Any:
    if dataclasses.is_dataclass(kind):
        return least(kind, path, count)
    return LEAST.get(kafka_type or "", 0)


class Watched:
    """Where in the source the array of `MANY` elements was counted, and by which bound."""

    def __init__(self) -> None:
        self._found: list[tuple[str, int, int]] = []

    def around(self, count: Callable[[Any, int], int]) -> Callable[[Any, int], int]:
        def counted(reader: Any, element_bytes_min: int) -> int:
            number = count(reader, element_bytes_min)
            caller = sys._getframe(1)
            if number == MANY and caller.f_code.co_name not in ("count", "int32s"):
                place = PurePath(caller.f_code.co_filename).name
                self._found.append((place, caller.f_lineno, element_bytes_min))
            return number

        return counted

    def take(self) -> list[tuple[str, int, int]]:
        found, self._found = self._found, []
        return found


def test_what_an_array_announces_is_held_to_the_fewest_bytes_of_its_elements(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watched = Watched()
    counters = (Reader, "count"), (Reader, "nullable_count"), (CompactReader, "count")
    for reader, name in counters:
        monkeypatch.setattr(reader, name, watched.around(getattr(reader, name)))
    held: dict[tuple[str, int], set[tuple[int, int]]] = defaultdict(set)
    for key, codec in CODECS.items():
        for version in range(VERSIONS[key][0], VERSIONS[key][1] + 1):
            for part in ("request", "response"):
                entity_type = getattr(kio_codec, f"{part}_type")(key, version)
                for path in arrays(entity_type):
                    wire = kio_codec.encode_body(least(entity_type, path, MANY))
                    more = kio_codec.encode_body(least(entity_type, path, MANY + 1))
                    getattr(codec, f"decode_{part}")(version, memoryview(bytearray(wire)))
                    for place, line, bound in watched.take():
                        held[place, line].add((bound, len(more) - len(wire)))
    assert len(held) > 30
    for at, pairs in held.items():
        bounds = {bound for bound, _ in pairs}
        if at[0] == "fetch.py" and len(bounds) > 1:  # of its version, the byte of no tags aside
            assert all(bound <= size <= bound + 1 for bound, size in pairs), at
        else:
            assert bounds == {min(size for _, size in pairs)}, at
