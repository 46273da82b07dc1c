"""Records of the coordinators' internal topics as JSON, like Kafka's message formatters.

Kafka's formatters print records without a separator; here each record is a line.
"""

from collections.abc import Mapping
from typing import NamedTuple

from headrace.cli.records.formats import Formatter
from headrace.cli.shared.failure import UsageError
from headrace.logtools.dump.java_text import json_of
from headrace.model.errors import Malformed
from headrace.model.nouns import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
    TopicPartition,
)
from headrace.record.record import Record
from headrace.wire.kafka.coordinator_records.offsets_tables import CONSUMER_OFFSETS, GROUP_TYPE
from headrace.wire.kafka.coordinator_records.state_tables import SHARE_STATE, TRANSACTION_STATE
from headrace.wire.schema import MessageSchema

_TYPE_BYTES = 2


class _Kind(NamedTuple):
    topic: str
    tables: Mapping[int, tuple[MessageSchema, MessageSchema]]
    types: frozenset[int]
    kafkas: str
    """The name of Kafka's formatter class."""


_KINDS = {
    "offsets": _Kind(OFFSETS_TOPIC, CONSUMER_OFFSETS, frozenset({0, 1}), "OffsetsMessageFormatter"),
    "group-metadata": _Kind(
        OFFSETS_TOPIC, CONSUMER_OFFSETS, frozenset({GROUP_TYPE}), "GroupMetadataMessageFormatter"
    ),
    "consumer-groups": _Kind(
        OFFSETS_TOPIC, CONSUMER_OFFSETS, frozenset({3, 4, 5, 6, 7, 8, 16}), ""
    ),
    "share-groups": _Kind(
        OFFSETS_TOPIC, CONSUMER_OFFSETS, frozenset(range(10, 16)), "ShareGroupMessageFormatter"
    ),
    "transactions": _Kind(
        TRANSACTIONS_TOPIC,
        TRANSACTION_STATE,
        frozenset(TRANSACTION_STATE),
        "TransactionLogMessageFormatter",
    ),
    "share-state": _Kind(
        SHARE_STATE_TOPIC, SHARE_STATE, frozenset(SHARE_STATE), "ShareGroupStateMessageFormatter"
    ),
}
NAMES = tuple(_KINDS)


def coordinator_formatter(name: str) -> Formatter:
    """Return the formatter of that name, Headrace's or Kafka's class. UsageError.

    Records of other types print nothing.
    """
    last = name.rpartition(".")[2]
    found = _KINDS.get(name) or next(
        (known for known in _KINDS.values() if known.kafkas == last), None
    )
    if found is None or not last:
        raise UsageError(f"--formatter {name}: must be one of {', '.join(NAMES)}")
    kind = found

    def format_(where: TopicPartition, record: Record) -> bytes:
        if where.topic != kind.topic:
            raise UsageError(f"--formatter {name}: {where.topic} has no such records")
        try:
            row = _row(kind, record)
        except Malformed as error:
            raise UsageError(f"{where} at offset {record.offset}: {error}") from None
        return b"" if row is None else json_of(row).encode() + b"\n"

    return Formatter(format_)


def _row(kind: _Kind, record: Record) -> dict[str, object] | None:
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
