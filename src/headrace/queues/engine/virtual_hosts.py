"""All virtual hosts of a broker, with the turns and timers of their queues."""

from collections.abc import Callable
from functools import partial

from headrace.ports.clock import Clock
from headrace.ports.deadlines import Deadlines
from headrace.queue_stores.message_store import MessageStore
from headrace.queues.engine.delivery_turns import AnyQueue, DeliveryTurns
from headrace.queues.engine.hosted_queue import MakeStore
from headrace.queues.engine.queue_host import QueueHost
from headrace.queues.model.declarations import DeclaredQueue
from headrace.queues.model.durability import Durability
from headrace.queues.model.exchanges import Uniform, lowest
from headrace.queues.model.virtual_host import VirtualHost
from headrace.queues.queue_names import DEFAULT_VHOST


class VirtualHosts:
    """The vhosts of a broker by name, with their queues; `/` always exists."""

    def __init__(
        self,
        clock: Clock,
        random_bytes: Callable[[], bytes],
        make_store: MakeStore,
        durability: Durability | None = None,
        uniform: Uniform = lowest,
    ) -> None:
        """Create the vhosts of a broker.

        `random_bytes` returns 16 bytes, for names of queues; `durability` None: memory only.
        `uniform` returns a random float, for routes.
        """
        self.turns = DeliveryTurns(clock)
        self.deadlines = Deadlines(clock)
        self._random_bytes = random_bytes
        self._make_store = make_store
        self._durability = durability
        self._uniform = uniform
        self._ended: Callable[[str, str], None] | None = None
        self.hosts: dict[str, QueueHost] = {}
        self.add(DEFAULT_VHOST)

    def add(self, name: str) -> QueueHost:
        """Add a vhost with its model and its queues' host; the name must be new."""
        model = VirtualHost(name, self._random_bytes, kept=self._durability)

        def make_store(queue: DeclaredQueue, priority: int) -> MessageStore:
            if queue.durable and self._durability is not None:
                return self._durability.make_store(name, queue, priority)
            return self._make_store(queue, priority)

        topic_store = None if self._durability is None else self._durability.topic_store
        host = QueueHost(model, self.turns, self.deadlines, make_store, topic_store)
        context = model.router.context
        context.uniform, context.is_led_here = self._uniform, host.queues.__contains__
        self.hosts[name] = host
        self._set_ended(host)
        return host

    def delete_ended_by(self, ended: Callable[[str, str], None]) -> None:
        """Have `ended` called with vhost and name of a queue that ends by itself, to delete it."""
        self._ended = ended
        for host in self.hosts.values():
            self._set_ended(host)

    def _set_ended(self, host: QueueHost) -> None:
        if self._ended is not None:
            host.ended = partial(self._ended, host.name)

    def remove(self, name: str) -> None:
        """Remove a vhost with its queues; its clients are closed already."""
        self.hosts.pop(name).clear()

    def queues(self) -> list[AnyQueue]:
        """Return the queues of all vhosts."""
        return [queue for host in self.hosts.values() for queue in host.queues.values()]

    def close(self) -> None:
        """End all timers and turns of queues: the broker stops."""
        self.deadlines.close()
        self.turns.close()
