"""Rows of the coordinators' records, decoded."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING

from headrace.log import file_names, text_files
from headrace.logtools.dump.row import Row
from headrace.model.nouns import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from headrace.record.batch import CorruptBatch
from headrace.wire.kafka.coordinator_records import consumer_offsets, share_state, transaction_state

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_SHARE_KEYS = {
    share_state.SNAPSHOT_KEY_TYPE: "ShareSnapshotKey",
    share_state.UPDATE_KEY_TYPE: "ShareUpdateKey",
}
_SHARE_BATCH = ("first_offset", "last_offset", "state", "delivery_count")
Decoder = Callable[[bytes | None, bytes | None], Row]


def decoder_for(path: str, topic: str | None = None) -> Decoder | None:
    """Return the decoder for the topic's records; None if the topic is not a coordinator's."""
    if topic is None:
        place = file_names.parse_directory(path.rpartition("/")[0].rpartition("/")[2])
        topic = None if place is None else place.topic
    return {
        OFFSETS_TOPIC: _offsets_row,
        TRANSACTIONS_TOPIC: _transactions_row,
        SHARE_STATE_TOPIC: _share_row,
    }.get(topic or "")


def _plain(value: object) -> object:
    """Convert a dataclass or named tuple, and those nested in it, to dicts and lists."""
    if is_dataclass(value) and not isinstance(value, type):
        return _by_name(value)
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: _plain(part) for name, part in value._asdict().items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value


def _by_name(value: "DataclassInstance") -> Row:
    return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}


def _unreadable(error: CorruptBatch, key: bytes | None, value: bytes | None) -> Row:
    return {"type": f"not readable: {error}", "key": key, "value": value}


def _row(key: object, value: object) -> Row:
    return {"type": type(key).__name__, "key": _plain(key), "value": _plain(value)}


def _offsets_row(key: bytes | None, value: bytes | None) -> Row:
    try:
        named = consumer_offsets.decode_key(key or b"")
        if value is None:
            return _row(named, None)
        if isinstance(named, consumer_offsets.OffsetKey):
            return _row(named, consumer_offsets.decode_offset_value(value))
        if isinstance(named, consumer_offsets.GroupKey):
            return _row(named, consumer_offsets.decode_group_value(value))
        return _row(named, value)
    except CorruptBatch as error:
        return _unreadable(error, key, value)


def _transactions_row(key: bytes | None, value: bytes | None) -> Row:
    try:
        named = transaction_state.decode_key(key or b"")
        if value is None:
            return _row(named, None)
        if isinstance(named, transaction_state.TransactionKey):
            return _row(named, transaction_state.decode_value(value))
        return _row(named, value)
    except CorruptBatch as error:
        return _unreadable(error, key, value)


def _share_row(key: bytes | None, value: bytes | None) -> Row:
    try:
        named = share_state.decode_key(key or b"")
        if not isinstance(named, share_state.ShareKey):
            return _row(named, value)
        return {
            "type": _SHARE_KEYS[named.type],
            "key": {
                "group": named.group,
                "topic_id": text_files.encode_uuid(named.topic_id),
                "partition": named.partition,
            },
            "value": None if value is None else _share_value(named.type, value),
        }
    except CorruptBatch as error:
        return _unreadable(error, key, value)


def _share_value(key_type: int, value: bytes) -> object:
    decoded: share_state.SnapshotValue | share_state.UpdateValue
    if key_type == share_state.SNAPSHOT_KEY_TYPE:
        decoded = share_state.decode_snapshot(value)
    else:
        decoded = share_state.decode_update(value)
    batches = [dict(zip(_SHARE_BATCH, batch, strict=True)) for batch in decoded.batches]
    return _by_name(decoded) | {"batches": batches}
