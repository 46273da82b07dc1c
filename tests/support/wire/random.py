"""Requests of any API and version, made by chance, and what a hostile sender makes of them."""

import dataclasses
import datetime
import types
import typing
import uuid
from collections.abc import Callable, Iterator
from functools import cache
from random import Random
from typing import Any

from kio.schema.errors import ErrorCode

from headrace.record import batch
from headrace.record.record import new_record
from headrace.wire.kafka import kio_codec

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
NAMES = ("t", "u", "g", "m", "", "range", "consumer", "uniform", "latest", "retention.ms", "1000",
         "client-id", "user", "__consumer_offsets", "größe", "t.*|(a+)+$", "x" * 249)  # fmt: skip
"""Strings that get a request past the first check: the broker under test has these topics."""
IDS: list[uuid.UUID | None] = [None, uuid.UUID(int=0), uuid.UUID(int=7)]
"""Ids of topics; a test adds those its broker has."""
WAIT_MS_MAX = 20
"""What a request that is sound may make its answer wait."""
_ELEMENTS_MAX = 3

Make = Callable[[Random], Any]


def _integer(bits: int, *, signed: bool = True) -> Make:
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    edges = [one for one in (-2, -1, 0, 0, 0, 1, 1, 2, 3, low, high) if low <= one <= high]

    def make(chance: Random) -> int:
        return chance.choice(edges) if chance.random() < 0.85 else chance.randint(low, high)

    return make


def _text(chance: Random) -> str:
    if chance.random() < 0.9:
        return chance.choice(NAMES)
    return "".join(chr(chance.randint(32, 0x2FF)) for _ in range(chance.randint(1, 40)))


def _noise(chance: Random) -> bytes:
    return chance.randbytes(chance.choice((0, 1, 4, 16, 200)))


def _records(chance: Random) -> bytes:
    value = chance.randbytes(chance.randint(0, 100))
    sound = batch.build([new_record(value, timestamp=1_780_000_000_000)])
    return chance.choice((sound, sound, sound + sound, sound[:-1], b"", chance.randbytes(80)))


def _milliseconds(chance: Random) -> datetime.timedelta:
    return datetime.timedelta(milliseconds=chance.choice((-1, 0, 1, WAIT_MS_MAX)))


_BY_TYPE: dict[str, Make] = {
    "int8": _integer(8),
    "int16": _integer(16),
    "int32": _integer(32),
    "int64": _integer(64),
    "uint16": _integer(16, signed=False),
    "uint32": _integer(32, signed=False),
    "float64": lambda chance: chance.choice((0.0, 1.0, -1.0, 1e300, float("inf"), float("nan"))),
    "bool": lambda chance: chance.random() < 0.5,
    "string": _text,
    "bytes": _noise,
    "records": _records,
    "uuid": lambda chance: chance.choice(IDS),
    "error_code": lambda chance: chance.choice((ErrorCode.none, ErrorCode.unknown_server_error)),
    "timedelta_i32": _milliseconds,
    "timedelta_i64": _milliseconds,
    "datetime_i64": lambda chance: EPOCH + datetime.timedelta(milliseconds=chance.randint(0, 10)),
}


def request(key: int, version: int, chance: Random) -> bytes:
    """The body of some request; every field may hold anything its type allows."""
    kind: Any = kio_codec.request_type(key, version)
    return kio_codec.encode_body(_entity(kind)(chance))


@cache
def _entity(entity_type: Any) -> Make:
    hints = typing.get_type_hints(entity_type)
    fields = {
        field.name: _value(hints[field.name], field.metadata.get("kafka_type"))
        for field in dataclasses.fields(entity_type)
    }

    def make(chance: Random) -> Any:
        return entity_type(**{name: value(chance) for name, value in fields.items()})

    return make


def _value(hint: Any, kafka_type: str | None) -> Make:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        inner = _value(
            next(one for one in typing.get_args(hint) if one is not types.NoneType), kafka_type
        )
        return lambda chance: None if chance.random() < 0.2 else inner(chance)
    if typing.get_origin(hint) is tuple:
        element = _value(typing.get_args(hint)[0], kafka_type)
        return lambda chance: tuple(
            element(chance) for _ in range(chance.choice((0, 1, 1, 1, 2, _ELEMENTS_MAX)))
        )
    return _entity(hint) if kafka_type is None else _BY_TYPE[kafka_type]


_LIES = (
    b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\x00\x00\x00", b"\x40\x00\x00\x00",
    b"\x7f\xff", b"\xff\xff", b"\x80\x00", b"\x00\xff",
    b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x80\x80\x80\x80\x80",
)  # fmt: skip
"""Lengths and counts, fixed and variable, that no frame holds."""


def hostile(key: int, version: int, chance: Random, rounds: int) -> Iterator[tuple[str, bytes]]:
    """(what was done, body): sound requests, and what is made of them."""
    yield "empty", b""
    for _ in range(rounds):
        sound = request(key, version, chance)
        yield "sound", sound
        yield "noise", chance.randbytes(chance.randint(1, 120))
        yield "cut", sound[: chance.randrange(len(sound) or 1)]
        yield "longer", sound + chance.randbytes(chance.randint(1, 16))
        yield "flipped", _flipped(sound, chance)
        for _ in range(2):
            yield "lying", _lying(sound, chance)


def _flipped(sound: bytes, chance: Random) -> bytes:
    changed = bytearray(sound or b"\0")
    for _ in range(chance.randint(1, 4)):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _lying(sound: bytes, chance: Random) -> bytes:
    """Somewhere stands a length that is not so, over what stood there or before it."""
    at, lie = chance.randrange(len(sound) or 1), chance.choice(_LIES)
    return sound[:at] + lie + sound[at + (len(lie) if chance.random() < 0.7 else 0) :]
