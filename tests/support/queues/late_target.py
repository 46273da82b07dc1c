"""A target of routes that stores or refuses its messages when the test says so."""

from collections.abc import Collection

from headrace.queue_stores.queue_settings import Published
from headrace.queues.port import ALL_STORED, UnstoredDone
from tests.support.amqp.channels import QueueClient, QueueRoom


class LateTarget:
    """A target that numbers its messages, as a queue on another broker does. `port.Target`."""

    confirms_late = confirms_transient = True
    title = "queue 'late' in vhost '/'"

    def __init__(self, *, numbers: bool = True) -> None:
        """`numbers`: refuses single messages late."""
        self.last_number: int | None = 0 if numbers else None
        self.failure: str | None = None
        self.bodies: list[bytes] = []
        self._waiting: list[UnstoredDone] = []

    def publish(self, published: Published, now: float) -> bool:
        """Accept a message."""
        self.bodies.append(published.message.body)
        if self.last_number is not None:
            self.last_number += 1
        return True

    def when_stored(self, done: UnstoredDone) -> None:
        """Note the callback for `decide`."""
        self._waiting.append(done)

    def decide(self, unstored: Collection[int] = ALL_STORED) -> None:
        """Store all messages so far but those of the numbers."""
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            done(unstored)


def late_target(
    room: QueueRoom, client: QueueClient, name: str = "late", *, numbers: bool = True
) -> LateTarget:
    """Declare a queue, and put a target in its place, as `LateTarget`."""
    client.declare(name, durable=True)
    host = room.broker.virtual_hosts.hosts["/"]
    host.queues.pop(name)
    target = host.targets[name] = LateTarget(numbers=numbers)
    return target
