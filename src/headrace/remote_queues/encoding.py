"""Calls and events as bytes: a kind, and the fields of the class by a table.

Messages are a record batch as in a queue's log, so what both brokers do with a message is encoded
and decoded by `queue_stores.record_messages`. Positions and numbers are 64-bit integers in a row.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from struct import pack, unpack
from typing import Any

from headrace.model.errors import ApiError, Malformed
from headrace.queue_stores.queue_settings import ConsumerSettings, StreamOffset, StreamStart
from headrace.queue_stores.record_messages import batch_of_messages, messages_in
from headrace.queues.port import Disposition, QueueInfo
from headrace.queues.refusals import RefusalKind, Refused
from headrace.record.batch import parse_header
from headrace.record.record_parts import ProducerBatch
from headrace.remote_queues import messages
from headrace.wire.kafka.reader import Reader
from headrace.wire.kafka.writer import Writer
from headrace.wire.schema import (
    Field,
    MessageSchema,
    Type,
    binary,
    boolean,
    int32,
    int64,
    nullable_array,
    nullable_string,
    record,
    string,
    struct,
)

_NUMBER_BYTES = 8


def _read_messages(reader: Reader, _: int) -> list[Any]:
    data = bytes(reader.bytes())
    return messages_in(data, 0).messages if data else []


def _write_messages(writer: Writer, value: Sequence[Any], _: int) -> None:
    writer.bytes(batch_of_messages(value, 0) if value else b"")


def _read_numbers(reader: Reader, _: int) -> list[int] | None:
    data = reader.nullable_bytes()
    if data is None:
        return None
    if len(data) % _NUMBER_BYTES:
        raise Malformed("numbers of 8 bytes end within one")
    return list(unpack(f">{len(data) // _NUMBER_BYTES}q", data))


def _write_numbers(writer: Writer, value: Sequence[int] | None, _: int) -> None:
    writer.nullable_bytes(None if value is None else pack(f">{len(value)}q", *value))


def _enumerated(kind: type[Enum]) -> Type:
    def read(reader: Reader, version: int) -> Any:  # noqa: ANN401 - a member of the enumeration
        try:
            return kind(string.read(reader, version))
        except ValueError as error:
            raise Malformed(str(error)) from None

    return Type(read, lambda writer, value, version: string.write(writer, value.value, version))


def _read_refused(reader: Reader, version: int) -> Refused | None:
    resource = nullable_string.read(reader, version)
    if resource is None:
        return None
    kind = _KIND.read(reader, version)
    return Refused(kind, resource, string.read(reader, version))


def _write_refused(writer: Writer, value: Refused | None, version: int) -> None:
    nullable_string.write(writer, None if value is None else value.resource, version)
    if value is not None:
        _KIND.write(writer, value.kind, version)
        string.write(writer, str(value), version)


_KIND = _enumerated(RefusalKind)
_START = _enumerated(StreamStart)
_FILTER = nullable_array(string)


def _read_wishes(reader: Reader, version: int) -> ConsumerSettings:
    priority = int32.read(reader, version)
    start = StreamOffset(_START.read(reader, version), int64.read(reader, version))
    wanted = _FILTER.read(reader, version)
    return ConsumerSettings(priority, start, None if wanted is None else frozenset(wanted))


def _write_wishes(writer: Writer, value: ConsumerSettings, version: int) -> None:
    priority, (start, number), wanted = value
    int32.write(writer, priority, version)
    _START.write(writer, start, version)
    int64.write(writer, number, version)
    _FILTER.write(writer, None if wanted is None else sorted(wanted), version)


_INFO_FIELDS = struct(*(Field(name, int64) for name in QueueInfo._fields))
_INFO = Type(
    lambda reader, version: QueueInfo(**_INFO_FIELDS.read(reader, version)),
    lambda writer, value, version: _INFO_FIELDS.write(writer, value._asdict(), version),
)
_MESSAGES = Type(_read_messages, _write_messages)
_NUMBERS = Type(_read_numbers, _write_numbers)
_REFUSED = Type(_read_refused, _write_refused)
_WISHES = Type(_read_wishes, _write_wishes)
_TYPES: Mapping[str, Type] = {
    "queue": int32, "vhost": string, "name": string, "first": int64, "over_length": boolean,
    "messages": _MESSAGES, "message": _MESSAGES, "consumer": int64, "tag": string,
    "no_ack": boolean, "exclusive": boolean, "prefetch": int32, "wishes": _WISHES,
    "credit": int64, "received": int64, "disposition": _enumerated(Disposition),
    "positions": _NUMBERS, "request": int64, "redelivered": boolean, "unstored": _NUMBERS,
    "refused": _REFUSED, "position": int64, "ready": int64, "settled": int64, "info": _INFO,
    "asks": boolean, "active": boolean, "offset": int64,
    "batch_bytes_max": int32, "room": int32, "numbers": _NUMBERS, "number": int64,
}  # fmt: skip
"""The type of each field, by its name in all calls and events."""

_CALLS = (
    messages.Open, messages.Publish, messages.Consume, messages.Cancel, messages.Credit,
    messages.Settle, messages.Get, messages.Purge, messages.Info, messages.Hold,
    messages.Recall, messages.Attached, messages.Reply, messages.CloseIfEmpty, messages.Reopen,
    messages.Leave,
)  # fmt: skip
"""The kinds of calls: their numbers are their places, and later ones are appended."""
_EVENTS = (
    messages.Delivered, messages.Stored, messages.Consuming, messages.Cancelled,
    messages.GotMessage, messages.PurgeEnded, messages.Counted, messages.Opened, messages.Moved,
    messages.Room, messages.Copied, messages.Recalled, messages.Begun, messages.Chosen,
)  # fmt: skip


class _PublishSchema:
    """A publish call as its record batch, which has the timestamp and the producer, too."""

    _FIELDS = record(
        Field("queue", int32), Field("first", int64), Field("over_length", boolean),
        Field("round", int32), Field("batch", binary),
    )  # fmt: skip

    def encode(self, fields: Mapping[str, Any], version: int) -> bytes:
        batch = batch_of_messages(fields["messages"], fields["timestamp"], fields["producer"])
        return self._FIELDS.encode({**fields, "batch": batch}, version)

    def decode(self, data: bytes, version: int) -> dict[str, Any]:
        fields = self._FIELDS.decode(data, version)
        try:
            header = parse_header(fields["batch"])
        except ApiError as error:
            raise Malformed(str(error)) from None
        producer = ProducerBatch(header.producer_id, header.producer_epoch, header.base_sequence)
        messages = messages_in(fields["batch"], 0).messages
        known = {"messages": messages, "timestamp": header.max_timestamp, "producer": producer}
        return fields | known


class _Kind:
    def __init__(self, made: type[Any]) -> None:
        self.made = made
        self.schema: MessageSchema | _PublishSchema
        if made is messages.Publish:
            self.schema = _PublishSchema()
            return
        types = {**_TYPES, "returns": int64 if made is messages.GotMessage else _NUMBERS}
        self.schema = record(*(Field(name, types[name]) for name in made._fields))


Encoded = dict[str, Any]
"""A call or an event as `wire.kafka.queue_messages` has it: `kind` and `body`."""
_CALL_KINDS = tuple(map(_Kind, _CALLS))
_EVENT_KINDS = tuple(map(_Kind, _EVENTS))
_NUMBERS_OF = {kind: at for kinds in (_CALLS, _EVENTS) for at, kind in enumerate(kinds)}


def encoded(message: messages.Call | messages.Event) -> Encoded:
    """Encode a call or an event."""
    number = _NUMBERS_OF[type(message)]
    kinds = _CALL_KINDS if type(message) in _CALLS else _EVENT_KINDS
    return {"kind": number, "body": kinds[number].schema.encode(message._asdict(), 0)}


def call_of(message: Encoded) -> messages.Call:
    """Decode a call; raise Malformed."""
    return _decoded(_CALL_KINDS, message)  # type: ignore[no-any-return]


def event_of(message: Encoded) -> messages.Event:
    """Decode an event; raise Malformed."""
    return _decoded(_EVENT_KINDS, message)  # type: ignore[no-any-return]


def _decoded(kinds: Sequence[_Kind], message: Encoded) -> Any:  # noqa: ANN401 - by its kind
    number = message["kind"]
    if not 0 <= number < len(kinds):
        raise Malformed(f"kind {number} is not known")
    kind = kinds[number]
    return kind.made(**kind.schema.decode(message["body"], 0))
