"""Operations on queues, exchanges and bindings of a virtual host: arguments and results.

A frontend that has queues adds them to the broker's operations (`operations.registry`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.operations.arguments import Arguments

# queues


class QueueDeclared(NamedTuple):
    """A queue after its declaration."""

    queue: str
    created: bool
    """False: it existed with the same arguments."""
    messages: int
    consumers: int


class QueueDescription(NamedTuple):
    """A queue, with counts of its messages."""

    vhost: str
    name: str
    type: str
    durable: bool
    auto_delete: bool
    exclusive: bool
    arguments: Mapping[str, object]
    messages_ready: int
    messages_unacknowledged: int
    messages: int
    message_bytes_ready: int
    consumers: int


class ConsumerDescription(NamedTuple):
    """A consumer of a queue."""

    connection: str
    channel: int
    user: str
    vhost: str
    queue: str
    tag: str
    ack_required: bool
    exclusive: bool
    prefetch_count: int
    messages_unacknowledged: int
    priority: int


@dataclass(frozen=True)
class DeclareQueue(Arguments[QueueDeclared]):
    """Declare a queue, as queue.declare; an integer among `arguments` is a long."""

    OPERATION = "queue.declare"
    vhost: str
    name: str
    durable: bool = False
    auto_delete: bool = False
    arguments: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class DeleteQueue(Arguments[int]):
    """Delete a queue; the result is how many messages were ready."""

    OPERATION = "queue.delete"
    vhost: str
    name: str
    if_unused: bool = False
    if_empty: bool = False


@dataclass(frozen=True)
class PurgeQueue(Arguments[int]):
    """Remove a queue's ready messages; the result is how many."""

    OPERATION = "queue.purge"
    vhost: str
    name: str


@dataclass(frozen=True)
class ListQueues(Arguments[list[QueueDescription]]):
    """List queues, of one virtual host where it is named."""

    OPERATION = "queue.list"
    MUTATES = False
    vhost: str | None = None


@dataclass(frozen=True)
class ListConsumers(Arguments[list[ConsumerDescription]]):
    """List consumers, of one virtual host or user where they are named."""

    OPERATION = "consumer.list"
    MUTATES = False
    vhost: str | None = None
    user: str | None = None


# exchanges


class ExchangeDeclared(NamedTuple):
    """An exchange after its declaration."""

    exchange: str
    created: bool
    """False: it existed with the same arguments."""


class ExchangeDescription(NamedTuple):
    """An exchange."""

    vhost: str
    name: str
    type: str
    durable: bool
    auto_delete: bool
    internal: bool
    arguments: Mapping[str, object]


@dataclass(frozen=True)
class DeclareExchange(Arguments[ExchangeDeclared]):
    """Declare an exchange, as exchange.declare; an integer among `arguments` is a long."""

    OPERATION = "exchange.declare"
    vhost: str
    name: str
    type: str
    durable: bool = False
    auto_delete: bool = False
    internal: bool = False
    arguments: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class DeleteExchange(Arguments[None]):
    """Delete an exchange with its bindings."""

    OPERATION = "exchange.delete"
    vhost: str
    name: str
    if_unused: bool = False


@dataclass(frozen=True)
class ListExchanges(Arguments[list[ExchangeDescription]]):
    """List exchanges, of one virtual host where it is named."""

    OPERATION = "exchange.list"
    MUTATES = False
    vhost: str | None = None


# bindings


class BindingCreated(NamedTuple):
    """A binding after its creation."""

    created: bool
    """False: it existed."""


class BindingDescription(NamedTuple):
    """A binding; the default exchange's to each queue are among them."""

    vhost: str
    source: str
    destination_type: str
    destination: str
    routing_key: str
    arguments: Mapping[str, object]


@dataclass(frozen=True)
class CreateBinding(Arguments[BindingCreated]):
    """Bind a queue or an exchange (`to`) to the exchange `source`."""

    OPERATION = "binding.create"
    vhost: str
    source: str
    to: str
    destination: str
    routing_key: str
    arguments: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class DeleteBinding(Arguments[int]):
    """Delete the bindings that `ListBindings` shows like this; the result is how many."""

    OPERATION = "binding.delete"
    vhost: str
    source: str
    to: str
    destination: str
    routing_key: str
    arguments: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class ListBindings(Arguments[list[BindingDescription]]):
    """List bindings, of one virtual host where it is named."""

    OPERATION = "binding.list"
    MUTATES = False
    vhost: str | None = None
