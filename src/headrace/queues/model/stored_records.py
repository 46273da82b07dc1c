"""The encoding of declarations in their log.

    u32   length of the first table, big-endian
    table the vhost, the kind of record, its fields but the arguments and those with their default
    table the arguments; none of a policy

Tables are AMQP field tables, which preserve the types of arguments. Names that are not UTF-8 are
restored unchanged.
"""

from hashlib import sha256
from struct import Struct
from typing import TYPE_CHECKING, cast

from headrace.model.errors import Malformed
from headrace.queues.model.stored_model import (
    BindingRecord,
    ExchangeRecord,
    PolicyRecord,
    QueueRecord,
    Record,
    RecordKind,
    from_store,
)
from headrace.wire.amqp.field_table import FieldValue, decode_table, encode_table

if TYPE_CHECKING:
    from collections.abc import Mapping

_LENGTH = Struct(">I")
_KINDS: dict[str, RecordKind] = {
    "exchange": ExchangeRecord,
    "queue": QueueRecord,
    "binding": BindingRecord,
    "policy": PolicyRecord,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}
_NOT_PLAIN = frozenset((bytes, list))
"""Types of fields that a record has as others."""
_VHOST = "vhost"
_KIND = "kind"


def record_key(vhost: str, record: Record) -> bytes:
    """Return the key of a record, a hash of its identity with 32 bytes."""
    parts = [vhost, _NAMES[type(record)]]
    match record:
        case BindingRecord(source, kind, destination, routing_key, arguments):
            parts += [source, kind, destination, routing_key]
            identity = encode_table(cast("Mapping[str, FieldValue]", arguments))
        case PolicyRecord(name, operators):
            parts += ["operators" if operators else "users", name]
            identity = b""
        case _:
            parts.append(record.name)
            identity = b""
    names = [part.encode("utf-8", "surrogateescape") for part in parts]
    content = b"".join(_LENGTH.pack(len(name)) + name for name in names)
    return sha256(content + identity).digest()


def encode_record(vhost: str, record: Record) -> bytes:
    """Encode a declaration with its vhost."""
    fields: dict[str, FieldValue] = {_VHOST: vhost, _KIND: _NAMES[type(record)]}
    defaults = record._field_defaults
    fields |= {
        name: value
        for name, value in record._asdict().items()
        if name != "arguments" and (name not in defaults or value != defaults[name])
    }
    table = encode_table(fields)
    arguments = b""
    if not isinstance(record, PolicyRecord):
        arguments = encode_table(cast("Mapping[str, FieldValue]", record.arguments))
    return _LENGTH.pack(len(table)) + table + arguments


def decode_record(content: bytes) -> tuple[str, Record]:
    """Decode a stored declaration and its vhost; raise Malformed."""
    if len(content) < _LENGTH.size:
        raise Malformed("a stored declaration ends in its length")
    (length,) = _LENGTH.unpack_from(content)
    end = _LENGTH.size + length
    if len(content) < end:
        raise Malformed("a stored declaration is cut off")
    fields: dict[str, object] = dict(decode_table(content[_LENGTH.size : end]))
    for name, value in fields.items():
        if type(value) in _NOT_PLAIN:
            fields[name] = _field(value)
    vhost, kind = fields.pop(_VHOST, None), fields.pop(_KIND, None)
    if not isinstance(vhost, str) or not isinstance(kind, str) or kind not in _KINDS:
        raise Malformed(f"a stored declaration is of kind {kind!r} in vhost {vhost!r}")
    if _KINDS[kind] is not PolicyRecord:
        fields["arguments"] = decode_table(content[end:]) if end < len(content) else {}
    record: Record = from_store(_KINDS[kind], fields)  # type: ignore[type-var]
    return vhost, record


def _field(value: object) -> object:
    """Return a record's field; names that are not UTF-8 are decoded as bytes."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return tuple(value) if isinstance(value, list) else value
