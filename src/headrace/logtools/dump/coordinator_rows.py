"""The coordinators' records as the formatters of Kafka's console consumer print them."""

from collections.abc import Mapping
from typing import NamedTuple

from headrace.model.nouns import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from headrace.record.record import Record
from headrace.wire.kafka.coordinator_records.offsets_tables import CONSUMER_OFFSETS, GROUP_TYPE
from headrace.wire.kafka.coordinator_records.state_tables import SHARE_STATE, TRANSACTION_STATE
from headrace.wire.schema import MessageSchema

_TYPE_BYTES = 2


class RecordKind(NamedTuple):
    """Records of one topic that a formatter of Kafka prints."""

    topic: str
    tables: Mapping[int, tuple[MessageSchema, MessageSchema]]
    types: frozenset[int]
    kafkas: str
    """The formatter's class in Kafka."""


KINDS = {
    "offsets": RecordKind(
        OFFSETS_TOPIC, CONSUMER_OFFSETS, frozenset({0, 1}), "OffsetsMessageFormatter"
    ),
    "group-metadata": RecordKind(
        OFFSETS_TOPIC, CONSUMER_OFFSETS, frozenset({GROUP_TYPE}), "GroupMetadataMessageFormatter"
    ),
    "consumer-groups": RecordKind(
        OFFSETS_TOPIC, CONSUMER_OFFSETS, frozenset({3, 4, 5, 6, 7, 8, 16}), ""
    ),
    "share-groups": RecordKind(
        OFFSETS_TOPIC, CONSUMER_OFFSETS, frozenset(range(10, 16)), "ShareGroupMessageFormatter"
    ),
    "transactions": RecordKind(
        TRANSACTIONS_TOPIC,
        TRANSACTION_STATE,
        frozenset(TRANSACTION_STATE),
        "TransactionLogMessageFormatter",
    ),
    "share-state": RecordKind(
        SHARE_STATE_TOPIC, SHARE_STATE, frozenset(SHARE_STATE), "ShareGroupStateMessageFormatter"
    ),
}
"""By our name."""


def kind_named(name: str) -> RecordKind | None:
    """Return the kind by our name or by the class name of Kafka's formatter; None: unknown."""
    last = name.rpartition(".")[2]
    by_class = (known for known in KINDS.values() if last and known.kafkas == last)
    return KINDS.get(name) or next(by_class, None)


def row_of(kind: RecordKind, record: Record) -> dict[str, object] | None:
    """Return a record's key and value by their fields' names; None: it is of another kind.

    Raises Malformed.
    """
    key, value = record.key, record.value
    if key is None or len(key) < _TYPE_BYTES:
        return None
    number = int.from_bytes(key[:_TYPE_BYTES], "big")
    if number not in kind.types:
        return None
    of_key, of_value = kind.tables[number]
    shown: dict[str, object] = {"key": {"type": number, "data": of_key.decode(key, 0, 2)}}
    shown["value"] = None
    if value is not None:
        version = int.from_bytes(value[:2], "big", signed=True)
        shown["value"] = {"version": version, "data": of_value.decode(value, version, 2)}
    return shown
