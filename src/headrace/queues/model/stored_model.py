"""A vhost's declarations as records: exchanges, queues, bindings between them, and policies.

Records are plain values; `stored_records` encodes their arguments as field tables, which preserve
types. A binding is durable if both its ends are. A single broker stores durable declarations only;
in a cluster transient ones are records too, as any broker may route to them (ADR 76). Fields that
only a cluster needs have defaults, which are not stored: a version that does not know them reads
the records of a single broker.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from headrace.model.errors import Malformed
from headrace.queues.model.bindings import Removed
from headrace.queues.model.declarations import ConnectionOwner, DeclaredQueue
from headrace.queues.model.durability import Model
from headrace.queues.model.exchanges import (
    DEFAULT_EXCHANGE,
    RESERVED_PREFIX,
    Binding,
    Exchange,
)
from headrace.queues.model.policies.vhost_policy import (
    PolicyId,
    VhostPolicy,
    policy_of,
)
from headrace.queues.refusals import QUEUE

Stored = Mapping[str, object]


class ExchangeRecord(NamedTuple):
    """An exchange, as it is stored."""

    name: str
    exchange_type: str
    auto_delete: bool
    internal: bool
    arguments: Mapping[str, object]
    durable: bool = True


class QueueRecord(NamedTuple):
    """A queue, as it is stored."""

    name: str
    auto_delete: bool
    arguments: Mapping[str, object]
    home: tuple[int, ...] = ()
    """The id and the registration's epoch of the broker that has a transient queue's messages, and
    the connection that it is exclusive to, 0: none (`ConnectionOwner`). Empty: it is durable."""
    replicas: tuple[int, ...] = ()
    """The brokers that are planned for a durable queue's messages, the first leader in front."""
    deleting: bool = False
    """Whether the queue is deleted but for its messages."""
    topic_id: str = ""
    """The id of the topic that is to be deleted, in hexadecimal digits; empty: not known."""

    @property
    def owner(self) -> ConnectionOwner | None:
        """The connection that the queue is exclusive to; None: it is not exclusive."""
        return ConnectionOwner(*self.home) if self.home and self.home[-1] else None


class BindingRecord(NamedTuple):
    """A binding, as it is stored."""

    source: str
    destination_kind: str
    destination: str
    routing_key: str
    arguments: Mapping[str, object]


class PolicyRecord(NamedTuple):
    """A policy or an operator policy, as it is stored. Versions without them skip it."""

    name: str
    operators: bool
    """Whether it is an operator policy."""
    value: str
    """The policy but for its name (`policies.vhost_policy.policy_text`)."""
    changed_ms: int
    """The wall time of the change in milliseconds."""


Record = ExchangeRecord | QueueRecord | BindingRecord | PolicyRecord
RecordKind = type[ExchangeRecord] | type[QueueRecord] | type[BindingRecord] | type[PolicyRecord]
_Record = TypeVar("_Record", ExchangeRecord, QueueRecord, BindingRecord, PolicyRecord)
_FIELDS = {
    kind: (frozenset(kind._fields).difference(kind._field_defaults), frozenset(kind._fields))
    for kind in (ExchangeRecord, QueueRecord, BindingRecord, PolicyRecord)
}
"""The fields that a stored record of a kind needs, and all that it may have."""


def from_store(kind: type[_Record], stored: Stored) -> _Record:
    """Return the record of a stored dictionary; raise Malformed if its fields do not match."""
    needed, known = _FIELDS[kind]
    if not needed <= stored.keys() <= known:
        raise Malformed(f"a stored {kind.__name__} has the fields {', '.join(sorted(stored))}")
    return kind(**stored)  # type: ignore[arg-type]


def exchange_record(exchange: Exchange, *, transient: bool = False) -> ExchangeRecord | None:
    """Return the record of an exchange; None: it is predeclared, or transient and not asked for."""
    name = exchange.name
    if name == DEFAULT_EXCHANGE or name.startswith(RESERVED_PREFIX):
        return None
    if not exchange.durable and not transient:
        return None
    return ExchangeRecord(
        name,
        exchange.exchange_type.name,
        exchange.auto_delete,
        exchange.internal,
        exchange.arguments,
        exchange.durable,
    )


def queue_record(queue: DeclaredQueue, home: tuple[int, ...] = ()) -> QueueRecord | None:
    """Return the record of a queue; None: it is transient, and has no `home`."""
    if queue.durable:
        return QueueRecord(queue.name, queue.auto_delete, queue.arguments)
    return QueueRecord(queue.name, queue.auto_delete, queue.arguments, home) if home else None


def binding_record(
    host: Model, binding: Binding, *, transient: bool = False
) -> BindingRecord | None:
    """Return the record of a binding; None: an end is transient, and `transient` is not set."""
    kind, name = binding.destination
    if not transient:
        to_durable = host.queues[name].durable if kind == QUEUE else host.exchanges[name].durable
        if not to_durable or not host.exchanges[binding.source].durable:
            return None
    return BindingRecord(binding.source, kind, name, binding.routing_key, binding.arguments)


def policy_record(policy: VhostPolicy) -> PolicyRecord:
    """Return the record of a policy."""
    name, operators = policy.id
    return PolicyRecord(name, operators, policy.text, policy.changed_ms)


def stored_policy(record: PolicyRecord) -> VhostPolicy:
    """Return the policy of a record. Raises Malformed."""
    name, operators, value, changed_ms = record
    return VhostPolicy(PolicyId(name, operators), policy_of(name, value), value, changed_ms)


def removed_records(removed: Removed) -> Iterable[Record]:
    """Yield records of removed declarations, with identifying fields only."""
    for name in removed.queues:
        yield QueueRecord(name, False, {})
    for exchange in removed.exchanges:
        yield ExchangeRecord(exchange.name, "", False, False, {})
    for binding in removed.bindings:
        kind, name = binding.destination
        yield BindingRecord(binding.source, kind, name, binding.routing_key, binding.arguments)
    for policy in removed.policies:
        yield PolicyRecord(*policy, "", 0)


def durable_records(host: Model) -> Iterator[Record]:
    """Yield the records of a vhost, exchanges and queues before bindings."""
    found: list[Record | None] = [policy_record(each) for each in host.policies.values()]
    found += [exchange_record(each) for each in host.exchanges.values()]
    found += [queue_record(queue) for queue in host.queues.values()]
    for exchange in host.exchanges.values():
        found += [binding_record(host, binding) for binding in exchange.bindings.values()]
    yield from (record for record in found if record is not None)
