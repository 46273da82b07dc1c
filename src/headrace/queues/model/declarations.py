"""Declarations of queues and exchanges, and the comparison with an existing one."""

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

from headrace.queue_stores.queue_settings import QueueSettings, QueueType
from headrace.queues.model import exchange_topic
from headrace.queues.model.argument_checks import RETENTION_ARGUMENTS
from headrace.queues.model.arguments import QUEUE_ARGUMENTS
from headrace.queues.model.exchanges import ALTERNATE_EXCHANGE, Exchange, ExchangeType
from headrace.queues.refusals import (
    QUEUE,
    check_same,
    check_same_argument,
    locked,
    precondition_failed,
    resource_text,
)

TTLS_MAX = 16
"""Message TTLs of a queue that are remembered while a broker runs."""
Arguments = Mapping[str, object]
Owner = Hashable
"""A connection: itself, or in a cluster its `ConnectionOwner`; None: an administrator, who has no
connection."""


class ConnectionOwner(NamedTuple):
    """A connection as the other brokers of a cluster know it."""

    broker: int
    """The id of the connection's broker."""
    epoch: int
    """The epoch of that broker's registration."""
    connection: int
    """The number of the connection on that broker, from 1 on."""


class DeclaredQueue:
    """A declaration of a queue on this broker, with the queue's present settings.

    It is one object from the declaration to the deletion, and is compared by identity: a queue that
    is deleted and declared again is another one, and one whose settings change is the same.
    """

    __slots__ = (
        "_ttls", "arguments", "auto_delete", "durable", "name", "owner", "settings",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        durable: bool,
        auto_delete: bool,
        owner: Owner | None,
        arguments: Arguments,
        settings: QueueSettings,
    ) -> None:
        self.name = name
        self.durable = durable
        self.auto_delete = auto_delete
        """Whether the queue is deleted when its last consumer is cancelled."""
        self.owner = owner
        """The only connection that may use the queue, and whose end deletes it; None: all may."""
        self.arguments = arguments
        """The arguments, with `x-queue-type` added if it was not named."""
        self.settings = settings
        """The arguments joined with the queue's policies; `change` replaces them."""
        self._ttls: Sequence[tuple[int, int | None]] = ()
        """Message TTLs since the first change, each with its begin; empty: none has changed."""

    def change(self, settings: QueueSettings, now_ms: int) -> None:
        """Replace the settings at the wall time `now_ms`."""
        before, self.settings = self.settings, settings
        if settings.ttl_ms != before.ttl_ms:
            ttls = self._ttls or _first_ttls(before)
            self._ttls = (*ttls[1 - TTLS_MAX :], (now_ms, settings.ttl_ms))

    def ttl_ms_at(self, published_ms: int) -> int | None:
        """Return the message TTL of messages published at a wall time; None: unlimited.

        Of changes before the broker's start only the last is known. On any thread.
        """
        for since_ms, ttl_ms in reversed(self._ttls):
            if since_ms <= published_ms:
                return ttl_ms
        settings = self.settings
        is_later = settings.ttl_since_ms <= published_ms
        return settings.ttl_ms if is_later else settings.ttl_before_ms


def _first_ttls(settings: QueueSettings) -> Sequence[tuple[int, int | None]]:
    since_ms = settings.ttl_since_ms
    before = ((0, settings.ttl_before_ms),) if since_ms else ()
    return (*before, (since_ms, settings.ttl_ms))


class QueueFlags(NamedTuple):
    """The flags of queue.declare: durable, exclusive, auto-delete."""

    durable: bool = False
    exclusive: bool = False
    auto_delete: bool = False


class ExchangeFlags(NamedTuple):
    """The flags of exchange.declare: durable, auto-delete, internal."""

    durable: bool = False
    auto_delete: bool = False
    internal: bool = False


class Declared(NamedTuple):
    """A declared queue, and whether it was created by this declaration."""

    queue: DeclaredQueue
    created: bool


class QueueCounts(NamedTuple):
    """Counts of ready messages and consumers, for if-empty and if-unused of queue.delete."""

    ready: int = 0
    consumers: int = 0


def check_same_exchange(
    current: Exchange,
    exchange_type: ExchangeType,
    flags: ExchangeFlags,
    arguments: Arguments,
    resource: str,
) -> None:
    """Raise Refused INEQUIVALENT if an existing exchange differs from a declaration.

    Of the arguments, the alternate exchange and the Kafka topic are compared.
    """
    check_same("type", resource, exchange_type.name, current.exchange_type.name)
    check_same("durable", resource, flags.durable, current.durable)
    check_same("auto_delete", resource, flags.auto_delete, current.auto_delete)
    check_same("internal", resource, flags.internal, current.internal)
    for name in (ALTERNATE_EXCHANGE, *exchange_topic.ARGUMENTS):
        check_same_argument(name, resource, arguments, current.arguments)


def check_same_queue(
    current: DeclaredQueue,
    exclusive_to: Owner | None,
    flags: QueueFlags,
    arguments: Arguments,
    resource: str,
) -> None:
    """Raise Refused if an existing queue differs from a declaration.

    RESOURCE_LOCKED if it belongs to another connection. Arguments that its type accepts are
    compared.
    """
    if current.owner != exclusive_to:
        raise locked(resource)
    check_same("durable", resource, flags.durable, current.durable)
    check_same("auto_delete", resource, flags.auto_delete, current.auto_delete)
    for name in QUEUE_ARGUMENTS[current.settings.queue_type]:
        check_same_argument(name, resource, arguments, current.arguments)


def check_not_locked(queue: DeclaredQueue, owner: Owner | None, vhost: str) -> None:
    """Raise Refused RESOURCE_LOCKED if a queue is exclusive to another connection."""
    if queue.owner is not None and queue.owner != owner:
        raise locked(resource_text(QUEUE, queue.name, vhost))


def check_properties(queue: DeclaredQueue, resource: str) -> None:
    """Raise Refused PRECONDITION_FAILED if a queue's flags do not fit its type or arguments."""
    if queue.settings.queue_type is QueueType.CLASSIC:
        if queue.settings.keeps_settled and not queue.durable:
            name = next(name for name in RETENTION_ARGUMENTS if name in queue.arguments)
            raise precondition_failed(
                f"invalid arg '{name}' for {resource}: a queue that is not durable, or exclusive,"
                " keeps nothing that is settled; declare it durable"
            )
        return
    for name, found in (
        ("auto-delete", queue.auto_delete),
        ("exclusive-owner", queue.owner is not None),
        ("non-durable", not queue.durable),
    ):
        if found:
            raise precondition_failed(f"invalid property '{name}' for {resource}")
