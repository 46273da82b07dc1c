"""Operations on queues, exchanges and bindings of a virtual host: arguments and results.

The AMQP frontend registers their implementations (`operations.registry`). By the management API,
changes need the user's own permissions in the virtual host, as in AMQP (ADR 82).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.model.errors import ApiError, ErrorCode
from headrace.operations.arguments import Arguments
from headrace.operations.tags import Tag


class OperationRefused(ApiError):
    """An operation that AMQP refuses: `message` has a remedy, `reason` is the text for clients."""

    def __init__(self, code: ErrorCode, message: str, reply_code: int, reason: str) -> None:
        """`reply_code`: AMQP's, as 404; `reason`: RabbitMQ's text without the code's name."""
        super().__init__(code, message)
        self.reply_code = reply_code
        self.reason = reason


# queues


class QueueDeclared(NamedTuple):
    """The result of a queue's declaration."""

    queue: str
    created: bool
    """False: the queue existed with the same arguments."""
    messages: int
    consumers: int


class QueueDescription(NamedTuple):
    """A queue's declaration, message counts and consumer count."""

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
    """Bytes of the ready messages."""
    consumers: int
    topic: str | None
    """The topic of its messages; None: it is not used yet, or its messages are in memory."""
    leader: int | None
    """The broker that serves it; None: none can."""
    members: tuple[int, ...]
    """The brokers that have its messages, the preferred leader first."""
    online: tuple[int, ...]
    """Members whose brokers run."""
    in_sync: tuple[int, ...]
    """Members that have all confirmed messages."""
    min_in_sync: int
    """How many members a publish needs to be confirmed."""
    state: str
    """`running`, `minority` or `down`."""


class QueueBrokerDescription(NamedTuple):
    """A broker of the cluster, as far as queues are concerned."""

    broker: int
    serves_queues: bool
    """Whether it can be a member of queues: it has a listener for their clients."""
    drained: bool
    """Whether it is drained for maintenance."""
    queues_led: int
    """Durable queues that it leads or, unused, is planned to lead."""


class ConsumerDescription(NamedTuple):
    """A consumer of a queue, with its channel and its prefetch."""

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
    """Declare a queue, like queue.declare; integers among `arguments` are sent as long."""

    OPERATION = "queue.declare"
    TAG = Tag.MANAGEMENT
    vhost: str
    name: str
    durable: bool = False
    auto_delete: bool = False
    arguments: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class DeleteQueue(Arguments[int]):
    """Delete a queue; the result is the number of messages that were ready."""

    OPERATION = "queue.delete"
    TAG = Tag.MANAGEMENT
    vhost: str
    name: str
    if_unused: bool = False
    if_empty: bool = False


@dataclass(frozen=True)
class PurgeQueue(Arguments[int]):
    """Remove a queue's ready messages; the result is their number."""

    OPERATION = "queue.purge"
    TAG = Tag.MANAGEMENT
    vhost: str
    name: str


@dataclass(frozen=True)
class ListQueues(Arguments[list[QueueDescription]]):
    """List queues, or those of one virtual host or one name."""

    OPERATION = "queue.list"
    MUTATES = False
    vhost: str | None = None
    name: str | None = None


@dataclass(frozen=True)
class PlanQueue(Arguments[None]):
    """Plan the members of a durable queue, the preferred leader first.

    A queue that is not used yet will have these. Of others, which are moved by reassignment of
    their topic, only the number of members that confirm a publish changes: a majority of these.
    """

    OPERATION = "queue.plan"
    vhost: str
    name: str
    members: tuple[int, ...]


@dataclass(frozen=True)
class ListQueueBrokers(Arguments[list[QueueBrokerDescription]]):
    """List the brokers of the cluster that may be members of queues, and those that may not."""

    OPERATION = "queue-broker.list"
    MUTATES = False


@dataclass(frozen=True)
class ListConsumers(Arguments[list[ConsumerDescription]]):
    """List consumers, or those of one virtual host or user."""

    OPERATION = "consumer.list"
    MUTATES = False
    vhost: str | None = None
    user: str | None = None


# exchanges


class ExchangeDeclared(NamedTuple):
    """The result of an exchange's declaration."""

    exchange: str
    created: bool
    """False: the exchange existed with the same arguments."""


class ExchangeDescription(NamedTuple):
    """An exchange as it was declared: type, durability, arguments."""

    vhost: str
    name: str
    type: str
    durable: bool
    auto_delete: bool
    internal: bool
    arguments: Mapping[str, object]


@dataclass(frozen=True)
class DeclareExchange(Arguments[ExchangeDeclared]):
    """Declare an exchange, like exchange.declare; integers among `arguments` are sent as long."""

    OPERATION = "exchange.declare"
    TAG = Tag.MANAGEMENT
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
    TAG = Tag.MANAGEMENT
    vhost: str
    name: str
    if_unused: bool = False


@dataclass(frozen=True)
class ListExchanges(Arguments[list[ExchangeDescription]]):
    """List exchanges, or those of one virtual host."""

    OPERATION = "exchange.list"
    MUTATES = False
    vhost: str | None = None


# bindings


class BindingCreated(NamedTuple):
    """The result of a binding's creation."""

    created: bool
    """False: the binding existed."""


class BindingDescription(NamedTuple):
    """A binding; the default exchange's bindings to every queue are listed too."""

    vhost: str
    source: str
    destination_type: str
    destination: str
    routing_key: str
    arguments: Mapping[str, object]


@dataclass(frozen=True)
class CreateBinding(Arguments[BindingCreated]):
    """Bind a queue or an exchange to the exchange `source`; `to` is "queue" or "exchange"."""

    OPERATION = "binding.create"
    TAG = Tag.MANAGEMENT
    vhost: str
    source: str
    to: str
    destination: str
    routing_key: str
    arguments: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class DeleteBinding(Arguments[int]):
    """Delete bindings equal to one that `ListBindings` shows; the result is their number."""

    OPERATION = "binding.delete"
    TAG = Tag.MANAGEMENT
    vhost: str
    source: str
    to: str
    destination: str
    routing_key: str
    arguments: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class ListBindings(Arguments[list[BindingDescription]]):
    """List bindings, or those of one virtual host."""

    OPERATION = "binding.list"
    MUTATES = False
    vhost: str | None = None
