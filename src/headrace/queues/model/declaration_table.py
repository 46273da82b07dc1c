"""Records of the log of declarations, applied to the table of a vhost.

    apply   add the declaration of a record, in place of another one of its identity
    remove  remove the declaration that a record identifies: a tombstone of its key

Both are idempotent: a log may be applied from any earlier offset again. Applied in the log's order,
compacted or not, the records give the part of the model that is stored.
"""

import logging
from typing import NamedTuple, assert_never

from headrace.queues.model.arguments import queue_settings
from headrace.queues.model.bindings import Removed
from headrace.queues.model.declarations import DeclaredQueue
from headrace.queues.model.durability import Declared
from headrace.queues.model.exchange_types.registry import EXCHANGE_TYPES
from headrace.queues.model.exchange_types.unknown import unknown_type
from headrace.queues.model.exchanges import Binding, Destination, Exchange
from headrace.queues.model.policies.vhost_policy import PolicyId
from headrace.queues.model.stored_model import (
    BindingRecord,
    ExchangeRecord,
    PolicyRecord,
    QueueRecord,
    Record,
    exchange_record,
    queue_record,
    stored_policy,
)
from headrace.queues.model.stored_records import encode_record
from headrace.queues.model.vhost_table import VhostTable
from headrace.queues.refusals import QUEUE, resource_text

_logger = logging.getLogger(__name__)


class Applied(NamedTuple):
    """The change of a table by a record."""

    added: Declared | None = None
    """None: the table has the declaration already, or an end of the binding is missing."""
    removed: Removed = Removed()
    """A declaration that was replaced, with its bindings."""


_UNCHANGED = Applied()


def apply(table: VhostTable, record: Record) -> Applied:
    """Add a declaration to a table. HeadraceError, ValueError: the record is invalid; no change."""
    match record:
        case ExchangeRecord():
            return _apply_exchange(table, record)
        case QueueRecord():
            return _apply_queue(table, record)
        case BindingRecord():
            return _apply_binding(table, record)
        case PolicyRecord():
            return _apply_policy(table, record)
        case _:
            assert_never(record)


def remove(table: VhostTable, record: Record) -> Removed:
    """Remove the declaration that a record identifies; its other fields are not compared."""
    match record:
        case ExchangeRecord():
            exchange = table.exchanges.get(record.name)
            if exchange is None:
                return Removed()
            return table.remove_exchange(exchange, unbound=False)
        case QueueRecord():
            if record.name not in table.queues:
                return Removed()
            return table.remove_queue(record.name, unbound=False)
        case BindingRecord():
            binding = _binding(record)
            if not table.bindings.has(binding):
                return Removed()
            return table.remove_binding(binding, unbound=False)
        case PolicyRecord(name, operators):
            return table.clear_policies([PolicyId(name, operators)])
        case _:
            assert_never(record)


def _apply_exchange(table: VhostTable, record: ExchangeRecord) -> Applied:
    current = table.exchanges.get(record.name)
    if current is not None and _same(table, exchange_record(current, transient=True), record):
        return _UNCHANGED
    exchange_type = EXCHANGE_TYPES.get(record.exchange_type)
    if exchange_type is None:
        _log_unknown(table.name, record)
        exchange_type = unknown_type(record.exchange_type)
    exchange = Exchange(
        record.name,
        exchange_type,
        durable=record.durable,
        auto_delete=record.auto_delete,
        internal=record.internal,
        arguments=record.arguments,
    )
    removed = remove(table, record)
    table.add_exchange(exchange)
    return Applied(exchange, removed)


def _log_unknown(vhost: str, record: ExchangeRecord) -> None:
    _logger.warning(
        "exchange %r (vhost %r): this broker does not have the exchange type %r. Messages to the"
        " exchange are nacked, and without confirms they are dropped. Start a version that has the"
        " type, or delete the exchange", record.name, vhost, record.exchange_type,
    )  # fmt: skip


def _apply_queue(table: VhostTable, record: QueueRecord) -> Applied:
    if record.deleting:
        return Applied(removed=remove(table, record))
    name, current = record.name, table.queues.get(record.name)
    as_declared = record._replace(replicas=(), deleting=False)
    if (
        current is not None
        and current.owner == record.owner
        and _same(table, queue_record(current, record.home), as_declared)
    ):
        return _UNCHANGED
    settings = queue_settings(record.arguments, resource_text(QUEUE, name, table.name))
    removed = remove(table, record)
    durable = not record.home
    queue = DeclaredQueue(
        name, durable, record.auto_delete, record.owner, record.arguments, settings
    )
    table.add_queue(queue)
    return Applied(queue, removed)


def _apply_binding(table: VhostTable, record: BindingRecord) -> Applied:
    ends = table.queues if record.destination_kind == QUEUE else table.exchanges
    if record.source not in table.exchanges or record.destination not in ends:
        return _UNCHANGED
    binding = _binding(record)
    return Applied(binding) if table.add_binding(binding) else _UNCHANGED


def _apply_policy(table: VhostTable, record: PolicyRecord) -> Applied:
    policy = stored_policy(record)
    if table.policies.get(policy.id) == policy:
        return _UNCHANGED
    table.set_policy(policy)
    return Applied(policy)


def _binding(record: BindingRecord) -> Binding:
    destination = Destination(record.destination_kind, record.destination)
    return Binding(record.source, destination, record.routing_key, record.arguments)


def _same(table: VhostTable, current: Record | None, record: Record) -> bool:
    """Compare a declaration with a record as they are stored, which keeps arguments' types."""
    if current is None:
        return False
    return encode_record(table.name, current) == encode_record(table.name, record)
