"""The model of a virtual host: exchanges, queues, bindings, and the checks of their changes.

The checks, permissions included, are RabbitMQ 4.0's, with its codes and texts and in its order. Not
here: the queue that an empty name stands for (a channel knows it), and the messages of queues.
"""

from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping

from headrace.queue_stores.queue_settings import QueueType
from headrace.queues.field_values import kind_of
from headrace.queues.model import arguments as queue_arguments
from headrace.queues.model.argument_checks import DEAD_LETTER_EXCHANGE
from headrace.queues.model.bindings import Removed
from headrace.queues.model.declarations import (
    Arguments,
    Declared,
    DeclaredQueue,
    ExchangeFlags,
    Owner,
    QueueCounts,
    QueueFlags,
    check_not_locked,
    check_properties,
    check_same_exchange,
    check_same_queue,
)
from headrace.queues.model.durability import Declarations, NothingKept
from headrace.queues.model.exchange_topic import check_reads, exchange_topic
from headrace.queues.model.exchange_types.amqp import TOPIC
from headrace.queues.model.exchange_types.registry import declared_type
from headrace.queues.model.exchanges import (
    ALTERNATE_EXCHANGE,
    RESERVED_PREFIX,
    Binding,
    Destination,
    Exchange,
    check_name,
    check_not_default,
)
from headrace.queues.model.vhost_table import VhostTable, predeclared_exchanges
from headrace.queues.permissions.access import FULL_ACCESS, Access, Permission
from headrace.queues.refusals import (
    EXCHANGE,
    KAFKA_TOPIC,
    QUEUE,
    RefusalKind,
    Refused,
    not_found,
    precondition_failed,
    refused,
    resource_text,
)

SERVER_NAMED_PREFIX = "amq.gen-"
LINE_ENDS = str.maketrans("", "", "\r\n")
"""Characters that names lose, for `str.translate`."""


class VirtualHost:
    """The model of one vhost; a change is complete or refused when its method returns."""

    def __init__(
        self,
        name: str,
        random_bytes: Callable[[], bytes],
        *,
        queues_max: int | None = None,
        kept: Declarations | None = None,
    ) -> None:
        """Create the model of a vhost.

        `random_bytes` returns 16 bytes; `queues_max` None: no limit on queues.

        `kept` stores durable declarations, and is notified of all changes.
        """
        self.name = name
        self.kept = kept or NothingKept()
        self.queues_max = queues_max
        self.default_queue_type = QueueType.CLASSIC
        """The type of durable queues that are declared without a type."""
        self._random_bytes = random_bytes
        self.table = table = VhostTable(name)
        self.exchanges, self.queues, self.policies = table.exchanges, table.queues, table.policies
        self.bindings, self.router = table.bindings, table.router

    def declare_exchange(
        self,
        name: str,
        type_name: str,
        flags: ExchangeFlags,
        arguments: Arguments,
        access: Access = FULL_ACCESS,
    ) -> bool:
        """Declare an exchange; return False if an equal one exists; raise Refused."""
        exchange_type = declared_type(type_name)
        name = name.translate(LINE_ENDS)
        check_not_default(name)
        access.check(Permission.CONFIGURE, EXCHANGE, name)
        current = self.exchanges.get(name)
        if current is not None:
            check_same_exchange(
                current, exchange_type, flags, arguments, self._text(EXCHANGE, name)
            )
            self._check_topic(name, arguments, access)
            return False
        check_name(EXCHANGE, name)
        self._check_refers(EXCHANGE, name, ALTERNATE_EXCHANGE, arguments, access)
        self._check_topic(name, arguments, access)
        exchange_type.check_arguments(arguments)
        self.add_exchange(
            Exchange(
                name,
                exchange_type,
                durable=flags.durable,
                auto_delete=flags.auto_delete,
                internal=flags.internal,
                arguments=arguments,
            )
        )
        return True

    def add_exchange(self, exchange: Exchange) -> None:
        """Add a new exchange to the vhost without checks."""
        self.table.add_exchange(exchange)
        self.kept.added(self, exchange)

    def check_exchange(self, name: str) -> Exchange:
        """Return the exchange of a passive declaration; raise Refused if it does not exist."""
        name = name.translate(LINE_ENDS)
        check_not_default(name)
        return self._exchange(name)

    def check_publish(self, name: str) -> Exchange:
        """Return the exchange of a publish; raise Refused if it does not exist or is internal."""
        exchange = self._exchange(name)
        if exchange.internal:
            raise refused(f"cannot publish to internal {self._text(EXCHANGE, name)}")
        return exchange

    def delete_exchange(
        self, name: str, *, if_unused: bool = False, access: Access = FULL_ACCESS
    ) -> Removed:
        """Delete an exchange with its bindings; an unknown one is ignored. Raises Refused."""
        name = name.translate(LINE_ENDS)
        check_not_default(name)
        if name.startswith(RESERVED_PREFIX):
            raise refused(f"deletion of system {self._text(EXCHANGE, name)} not allowed")
        access.check(Permission.CONFIGURE, EXCHANGE, name)
        exchange = self.exchanges.get(name)
        if exchange is None:
            return Removed()
        if if_unused and exchange.bindings:
            raise precondition_failed(f"{self._text(EXCHANGE, name)} in use")
        return self._removed(self.table.remove_exchange(exchange))

    def declare_queue(
        self,
        name: str,
        flags: QueueFlags,
        arguments: Arguments,
        owner: Owner | None,
        access: Access = FULL_ACCESS,
    ) -> Declared:
        """Declare a queue; an empty `name` is replaced by a generated one. Raises Refused.

        `owner` is the declaring connection. An exclusive queue is never durable.
        """
        # As in RabbitMQ the vhost's default is for queues that a quorum queue or a stream can be.
        lasts = flags.durable and not flags.exclusive and not flags.auto_delete
        default = self.default_queue_type if lasts else QueueType.CLASSIC
        arguments = queue_arguments.with_queue_type(arguments, default)
        name = self._name_for_declaration(name, arguments)
        access.check(Permission.CONFIGURE, QUEUE, name)
        exclusive_to = owner if flags.exclusive else None
        flags = flags._replace(durable=flags.durable and not flags.exclusive)
        current = self.queues.get(name)
        if current is not None:
            check_same_queue(current, exclusive_to, flags, arguments, self._text(QUEUE, name))
            self.check_reads(current, access)
            return Declared(current, created=False)
        self._check_refers(QUEUE, name, DEAD_LETTER_EXCHANGE, arguments, access)
        settings = queue_arguments.queue_settings(arguments, self._text(QUEUE, name))
        if self.queues_max is not None and len(self.queues) >= self.queues_max:
            raise Refused(
                RefusalKind.LIMIT_REACHED,
                QUEUE,
                f"cannot declare queue '{name}': queue limit in vhost '{self.name}'"
                f" ({self.queues_max}) is reached",
            )
        queue = DeclaredQueue(
            name, flags.durable, flags.auto_delete, exclusive_to, arguments, settings
        )
        check_properties(queue, self._text(QUEUE, name))
        self.check_reads(queue, access)
        self.add_queue(queue)
        return Declared(queue, created=True)

    def add_queue(self, queue: DeclaredQueue) -> None:
        """Add a new queue to the vhost without checks."""
        self.table.add_queue(queue)
        self.kept.added(self, queue)

    def check_reads(self, queue: DeclaredQueue, access: Access) -> None:
        """Raise Refused unless a stream's topic can be read, and by the user."""
        topics, read = self.kept.topics, queue.settings.topic
        check_reads(topics, read, self._text(QUEUE, queue.name), access)

    def check_queue(self, name: str, owner: Owner | None) -> DeclaredQueue:
        """Return a queue that `owner` may use: passive declarations, gets, consumers, purges.

        Raises Refused: NOT_FOUND, or LOCKED if it is exclusive to another connection.
        """
        name = name.translate(LINE_ENDS)
        queue = self.queues.get(name)
        if queue is None:
            raise not_found(QUEUE, self._text(QUEUE, name))
        check_not_locked(queue, owner, self.name)
        return queue

    def delete_queue(
        self,
        name: str,
        owner: Owner | None,
        counts: QueueCounts,
        *,
        if_unused: bool = False,
        if_empty: bool = False,
        access: Access = FULL_ACCESS,
    ) -> Removed:
        """Delete a queue with its bindings; an unknown one is ignored. Raises Refused.

        `counts` are compared with the conditions. For a quorum queue a condition is refused
        (CONDITION_UNSUPPORTED), for a stream it is ignored.
        """
        name = name.translate(LINE_ENDS)
        access.check(Permission.CONFIGURE, QUEUE, name)
        queue = self.queues.get(name)
        if queue is None:
            return Removed()
        check_not_locked(queue, owner, self.name)
        resource = self._text(QUEUE, name)
        if queue.settings.queue_type is QueueType.QUORUM and (if_unused or if_empty):
            raise Refused(
                RefusalKind.CONDITION_UNSUPPORTED,
                QUEUE,
                f"cannot delete {resource}. queue.delete operations with"
                f" {'if-unused' if if_unused else 'if-empty'} flag set are not supported by quorum"
                " queues",
            )
        if queue.settings.queue_type is QueueType.CLASSIC:
            if if_unused and counts.consumers:
                raise precondition_failed(f"{resource} in use")
            if if_empty and counts.ready:
                raise precondition_failed(f"{resource} not empty")
        return self.remove_queue(name)

    def remove_queue(self, name: str) -> Removed:
        """Remove an existing queue and its bindings: it was deleted or has expired."""
        return self._removed(self.table.remove_queue(name))

    def clear(self) -> None:
        """Remove all declared exchanges, bindings and policies: the vhost is deleted."""
        self._removed(self.table.clear_policies(list(self.policies)))
        for exchange in list(self.exchanges.values()):
            if exchange.name in self.exchanges and exchange.name:
                self._removed(self.table.remove_exchange(exchange))
        for exchange in predeclared_exchanges():  # the vhost is used on if its deletion fails
            self.table.add_exchange(exchange)

    def _removed(self, removed: Removed) -> Removed:
        self.kept.removed(self, removed)
        return removed

    def consumer_gone(self, name: str, consumers_left: int) -> Removed:
        """Remove an auto-delete queue whose last consumer is gone."""
        queue = self.queues.get(name)
        if queue is None or not queue.auto_delete or consumers_left:
            return Removed()
        return self.remove_queue(name)

    def connection_closed(self, owner: Owner) -> list[Removed]:
        """Remove the queues that were exclusive to a closed connection."""
        return [self.remove_queue(name) for name in self.table.owned_by(owner)]

    def bind(self, binding: Binding, owner: Owner | None, access: Access = FULL_ACCESS) -> bool:
        """Bind a queue or an exchange; return False if the binding exists; raise Refused."""
        binding = self._checked(binding, access)
        destination = binding.destination
        self._check_leads_to(destination, access)
        source = self._exchange(binding.source)
        if destination.name not in self._named(destination.kind):
            raise not_found(destination.kind, self._text(*destination))
        queue = self.queues.get(destination.name) if destination.kind == QUEUE else None
        queue_type = None if queue is None else queue.settings.queue_type
        source.exchange_type.check_binding(source.arguments, binding, queue_type)
        self._check_destination(destination, owner)
        added = self.table.add_binding(binding)
        if added:
            self.kept.added(self, binding)
        return added

    def unbind(
        self, binding: Binding, owner: Owner | None, access: Access = FULL_ACCESS
    ) -> Removed:
        """Remove a binding; an unknown one, also with an unknown end, is ignored."""
        binding = self._checked(binding, access)
        if not self.bindings.has(binding):
            return Removed()
        self._check_destination(binding.destination, owner)
        return self._removed(self.table.remove_binding(binding))

    def _checked(self, binding: Binding, access: Access) -> Binding:
        """Check permissions for a binding (Refused); return it without line ends in its names."""
        source = binding.source.translate(LINE_ENDS)
        kind, name = binding.destination
        name = name.translate(LINE_ENDS)
        access.check(Permission.WRITE, kind, name)
        if kind == EXCHANGE:
            check_not_default(name)
        check_not_default(source)
        access.check(Permission.READ, EXCHANGE, source)
        exchange = self.exchanges.get(source)
        if exchange is not None and exchange.exchange_type is TOPIC:
            access.check_topic(Permission.READ, source, binding.routing_key)
        return binding._replace(source=source, destination=Destination(kind, name))

    def _check_destination(self, destination: Destination, owner: Owner | None) -> None:
        if destination.kind == QUEUE:
            check_not_locked(self.queues[destination.name], owner, self.name)

    def _check_refers(
        self, kind: str, name: str, argument: str, arguments: Arguments, access: Access
    ) -> None:
        """Check an argument that names an exchange to forward messages to. Raises Refused."""
        if argument not in arguments:
            return
        exchange = arguments[argument]
        if not isinstance(exchange, str):
            raise precondition_failed(
                f"invalid type '{kind_of(exchange)}' for arg '{argument}' in"
                f" {self._text(kind, name)}"
            )
        access.check(Permission.READ, kind, name)
        access.check(Permission.WRITE, EXCHANGE, exchange)
        self._check_leads_to(Destination(EXCHANGE, exchange), access)

    def _check_leads_to(self, destination: Destination, access: Access) -> None:
        """Raise Refused if messages to a destination would be stored in a topic not permitted."""
        for topic in self.router.topics_behind(destination):
            access.check(Permission.WRITE, KAFKA_TOPIC, topic)

    def _check_topic(self, name: str, arguments: Arguments, access: Access) -> None:
        """Raise Refused if an exchange's topic is invalid, or the user may not store in it."""
        resource = self._text(EXCHANGE, name)
        stored = exchange_topic(arguments, resource)
        if stored is not None:
            access.check(Permission.WRITE, KAFKA_TOPIC, stored.topic)
            self.kept.topics.check(stored.topic, resource, access)

    def _name_for_declaration(self, name: str, arguments: Arguments) -> str:
        name = name.translate(LINE_ENDS)
        if not name:
            queue_type = queue_arguments.queue_type_of(arguments)
            if queue_type is not QueueType.CLASSIC:
                raise precondition_failed(
                    f"Cannot declare a server-named queue for type {queue_type.title}"
                )
            random = urlsafe_b64encode(self._random_bytes()).decode("ascii")
            return f"{SERVER_NAMED_PREFIX}{random.rstrip('=')}"
        check_name(QUEUE, name)
        return name

    def _exchange(self, name: str) -> Exchange:
        exchange = self.exchanges.get(name)
        if exchange is None:
            raise not_found(EXCHANGE, self._text(EXCHANGE, name))
        return exchange

    def _named(self, kind: str) -> Mapping[str, object]:
        return self.queues if kind == QUEUE else self.exchanges

    def _text(self, kind: str, name: str) -> str:
        return resource_text(kind, name, self.name)
