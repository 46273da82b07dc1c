"""Held messages as records of an internal, compacted topic.

    key                          value       headers
    time, i64 ms | 16 random     body        the message's own | `target`: by `Targets`
    the same key                 null        `settled`: offset of the message, i64
    the same key | "n"           offset, i64 | count, i32       (attempts on the message)
    the same key | "n"           null

A message is settled once it is in its target, or need not get there: then compaction removes it.
All keys differ, so compaction removes nothing else. The topic is closed to all clients.
"""

import struct
from typing import Generic, NamedTuple, Protocol, TypeVar

from headrace.record.record import Header, Record, new_record

TARGET = "target"
SETTLED = "settled"
_KEY = struct.Struct(">q16s")
_NUMBER = b"n"
_OFFSET = struct.Struct(">q")
_ATTEMPTS = struct.Struct(">qi")


T = TypeVar("T")


class Targets(Protocol[T]):
    """The targets of a log's messages, as its records name them."""

    def encode(self, target: T) -> bytes:
        """Return the name of a target in a record."""

    def decode(self, encoded: bytes) -> T:
        """Return the target of a record. Raises ValueError."""


class HeldMessage(NamedTuple, Generic[T]):
    """A message that is not in its target yet."""

    target: T
    body: bytes
    headers: tuple[Header, ...] = ()


class HeldPlace(NamedTuple):
    """The place of a held message: its offset in the log, and the key by which it is settled."""

    offset: int
    key: bytes

    @property
    def time_ms(self) -> int:
        """The message's time in ms since 1970."""
        return int(_KEY.unpack(self.key)[0])


class StoredMessage(NamedTuple, Generic[T]):
    """A held message in the log."""

    place: HeldPlace
    message: HeldMessage[T]


class SettledOffset(NamedTuple):
    """The record that says that a message is settled."""

    offset: int


class Attempts(NamedTuple):
    """The record that counts attempts on a message."""

    offset: int
    times: int


class HeldAt(NamedTuple):
    """The record of a message: its offset, and its time in ms since 1970."""

    offset: int
    time_ms: int


def new_key(time_ms: int, random: bytes) -> bytes:
    """Return the key of a new message; `random`: 16 bytes. ValueError: the time has 64 bits."""
    try:
        return _KEY.pack(time_ms, random)
    except struct.error as error:
        raise ValueError(f"time {time_ms}: {error}") from None


def message_record(key: bytes, message: HeldMessage[T], targets: Targets[T], now_ms: int) -> Record:
    """Return the record of a message."""
    target = TARGET, targets.encode(message.target)
    return new_record(message.body, key, now_ms, (*message.headers, target))


def settled_records(place: HeldPlace, counted: bool, now_ms: int) -> list[Record]:
    """Return the records that settle a message; `counted`: whether attempts were counted."""
    settled = ((SETTLED, _OFFSET.pack(place.offset)),)
    records = [new_record(None, place.key, now_ms, settled)]
    if counted:
        records.append(new_record(None, place.key + _NUMBER, now_ms))
    return records


def attempts_record(place: HeldPlace, count: int, now_ms: int) -> Record:
    """Return the record that counts attempts on a message."""
    value = _ATTEMPTS.pack(place.offset, count)
    return new_record(value, place.key + _NUMBER, now_ms)


def decode_state(record: Record) -> HeldAt | SettledOffset | Attempts | None:
    """Return what a record says of a message; None: nothing, or its form is not known."""
    key = record.key or b""
    try:
        if len(key) == _KEY.size + len(_NUMBER):
            return None if record.value is None else Attempts(*_ATTEMPTS.unpack(record.value))
        time_ms, _ = _KEY.unpack(key)
        if time_ms < 0:
            return None
        if record.value is not None:
            return HeldAt(record.offset, time_ms)
        return SettledOffset(*_OFFSET.unpack(_header(record, SETTLED)))
    except struct.error:
        return None


def decode_message(record: Record, targets: Targets[T]) -> StoredMessage[T] | None:
    """Return a record's message; None: it has none."""
    if record.value is None or record.key is None:
        return None
    try:
        target = targets.decode(_header(record, TARGET))
    except ValueError:
        return None
    headers = tuple(header for header in record.headers if header[0] != TARGET)
    place = HeldPlace(record.offset, record.key)
    return StoredMessage(place, HeldMessage(target, record.value, headers))


def _header(record: Record, name: str) -> bytes:
    return next((value for key, value in record.headers if key == name and value), b"")
