"""Coordinators' records as Kafka's DumpLogSegments prints them: key and payload as JSON."""

from struct import Struct
from typing import Any

from headrace.logtools.dump.java_text import json_of
from headrace.model.errors import HeadraceError, Malformed
from headrace.record.record import Record
from headrace.wire.kafka.coordinator_records.offsets_tables import (
    ASSIGNMENT,
    GROUP_TYPE,
    SUBSCRIPTION,
)
from headrace.wire.schema import Message

_INT16 = Struct(">h")
Tables = dict[int, tuple[Message, Message]]
Printed = tuple[str | None, str | None]
"""Key and payload as text; None: not printed."""


class MissingKey(HeadraceError):
    """A record without a key, so that the file is not of a coordinator's topic."""


def coordinator_text(record: Record, tables: Tables) -> Printed:
    """Return key and payload of a coordinator's record as text."""
    if record.key is None:
        raise MissingKey(
            f"Failed to decode message at offset {record.offset} using the specified decoder "
            "(message had a missing key)"
        )
    try:
        kind = _version(record.key)
        if kind not in tables:
            return f"Unknown record type {kind} at offset {record.offset}, skipping.", None
        key, value = tables[kind]
        printed = json_of({"type": str(kind), "data": key.decode(record.key, 0, 2)})
        if record.value is None:
            return printed, "<DELETE>"
        version = _version(record.value)
        data = value.decode(record.value, version, 2)
        if kind == GROUP_TYPE:
            _open_members(data)
        return printed, json_of({"version": str(version), "data": data})
    except Malformed as error:
        return f"Error at offset {record.offset}, skipping. {error}", None


def _version(data: bytes) -> int:
    if len(data) < _INT16.size:
        raise Malformed(f"{len(data)} bytes are no version")
    version: int = _INT16.unpack_from(data)[0]
    return version


def _open_members(group: dict[str, Any]) -> None:
    """Decode the consumer protocol's bytes of a classic group's members; invalid ones stay
    bytes."""
    if group["protocolType"] != "consumer":
        return
    for member in group["members"]:
        for name, message in (("subscription", SUBSCRIPTION), ("assignment", ASSIGNMENT)):
            try:
                version = min(_version(member[name]), message.latest)
                member[name] = message.decode(member[name], version, 2)
            except Malformed:
                continue
