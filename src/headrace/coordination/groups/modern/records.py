"""Records of modern groups, encoded by Kafka's message schemas with field names as there."""

from collections.abc import Mapping
from typing import Any

from headrace.model.errors import Malformed
from headrace.record.compression import CorruptBatch
from headrace.shards.journal import KeyValue
from headrace.wire.kafka.coordinator_records.offsets_tables import CONSUMER_OFFSETS

Fields = Mapping[str, Any]


def encode(key_type: int, names: tuple[str, ...], fields: Fields | None) -> KeyValue:
    """Encode a record of `key_type`; `names`: its key's fields in order; `fields` None: a
    tombstone.

    Uses Kafka 4.3's versions: all values are version 0, flexible.
    """
    key_message, value_message = CONSUMER_OFFSETS[key_type]
    key_fields = {field.name: name for field, name in zip(key_message.fields, names, strict=True)}
    key = key_message.encode(key_fields, 0, head=key_type)
    return key, None if fields is None else value_message.encode(fields, 0, head=0)


def decode(key: bytes, value: bytes | None) -> tuple[int, Fields, Fields | None]:
    """Decode a record to key type, key fields and value fields (None: a tombstone).
    Raises CorruptBatch."""
    key_type = int.from_bytes(key[:2], "big")
    try:
        key_message, value_message = CONSUMER_OFFSETS[key_type]
        names = key_message.decode(key, 0, 2)
        fields = None
        if value is not None:
            fields = value_message.decode(value, int.from_bytes(value[:2], "big"), 2)
    except (Malformed, ValueError, KeyError) as error:
        raise CorruptBatch(f"invalid record of key type {key_type}: {error}") from None
    return key_type, names, fields
