"""The durable part of a vhost's model as records: exchanges, queues, bindings between them.

Records are plain values; `stored_records` encodes their arguments as field tables, which preserve
types. A binding is durable if both its ends are.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeVar

from headrace.model.errors import Malformed
from headrace.queues.model.declarations import DeclaredQueue
from headrace.queues.model.durability import Model
from headrace.queues.model.exchanges import (
    DEFAULT_EXCHANGE,
    RESERVED_PREFIX,
    Binding,
    Exchange,
)
from headrace.queues.refusals import QUEUE

Stored = Mapping[str, object]


class ExchangeRecord(NamedTuple):
    """A durable exchange, as it is stored."""

    name: str
    exchange_type: str
    auto_delete: bool
    internal: bool
    arguments: Mapping[str, object]


class QueueRecord(NamedTuple):
    """A durable queue, as it is stored."""

    name: str
    auto_delete: bool
    arguments: Mapping[str, object]


class BindingRecord(NamedTuple):
    """A binding whose ends are durable, as it is stored."""

    source: str
    destination_kind: str
    destination: str
    routing_key: str
    arguments: Mapping[str, object]


Record = ExchangeRecord | QueueRecord | BindingRecord
_Record = TypeVar("_Record", ExchangeRecord, QueueRecord, BindingRecord)


def to_store(record: Record) -> dict[str, object]:
    """Return a stored declaration as a plain dictionary."""
    return {**record._asdict(), "arguments": dict(record.arguments)}


def from_store(kind: type[_Record], stored: Stored) -> _Record:
    """Return the record of a stored dictionary; raise Malformed if its fields do not match."""
    if set(stored) != set(kind._fields):
        raise Malformed(f"a stored {kind.__name__} has the fields {', '.join(sorted(stored))}")
    return kind(**stored)  # type: ignore[arg-type]


def exchange_record(exchange: Exchange) -> ExchangeRecord | None:
    """Return the record of an exchange; None: it is transient or predeclared."""
    name = exchange.name
    if not exchange.durable or name == DEFAULT_EXCHANGE or name.startswith(RESERVED_PREFIX):
        return None
    return ExchangeRecord(
        name,
        exchange.exchange_type.value,
        exchange.auto_delete,
        exchange.internal,
        exchange.arguments,
    )


def queue_record(queue: DeclaredQueue) -> QueueRecord | None:
    """Return the record of a queue; None: it is transient."""
    if not queue.durable:
        return None
    return QueueRecord(queue.name, queue.auto_delete, queue.arguments)


def binding_record(host: Model, binding: Binding) -> BindingRecord | None:
    """Return the record of a binding; None: one of its ends is transient."""
    kind, name = binding.destination
    to_durable = host.queues[name].durable if kind == QUEUE else host.exchanges[name].durable
    if not to_durable or not host.exchanges[binding.source].durable:
        return None
    return BindingRecord(binding.source, kind, name, binding.routing_key, binding.arguments)


def durable_records(host: Model) -> Iterator[Record]:
    """Yield the records of a vhost, exchanges and queues before bindings."""
    found: list[Record | None] = [exchange_record(each) for each in host.exchanges.values()]
    found += [queue_record(queue) for queue in host.queues.values()]
    for exchange in host.exchanges.values():
        found += [binding_record(host, binding) for binding in exchange.bindings.values()]
    yield from (record for record in found if record is not None)
