"""Closes running queues of a virtual host that stay declared, with their messages on disk."""

from abc import ABC, abstractmethod
from collections.abc import Iterable

from headrace.model.invariant import InvariantError
from headrace.queues.engine.closed_queue import ClosedQueue
from headrace.queues.engine.delivery_turns import AnyQueue, DeliveryTurns
from headrace.queues.engine.targets import Targets
from headrace.queues.port import Consumer
from headrace.queues.refusals import QUEUE, RefusalKind, Refused


class ClosingHost(ABC):
    """The part of a `QueueHost` that closes queues."""

    queues: dict[str, AnyQueue]
    targets: Targets
    _turns: DeliveryTurns

    @abstractmethod
    def _stop(self, queue: AnyQueue) -> None:
        """Stop the timers of a queue that is deleted or closed, and end its right to be led."""

    def close_broken(self, queue: AnyQueue, error: InvariantError) -> None:
        """Close a queue whose state contradicts itself, and notify its consumers."""
        text = f"{queue.title} was closed because of an internal error: {error}"
        refused = Refused(RefusalKind.BROKEN, QUEUE, text)
        consumers = self._close(queue, refused)
        queue.abandon(refused)
        self.end_consumers(consumers, refused)

    def unhost(self, queue: AnyQueue) -> list[Consumer]:
        """Stop running a queue that another broker leads now; return its consumers.

        It stays declared, and refuses all but deletion until `QueueHost.host` runs it again.
        Publishes that are not confirmed are reported as unstored. `end_consumers` cancels the
        consumers.
        """
        if self.queues.get(queue.name) is not queue:
            return []
        text = f"the leader of {queue.title} is down or cannot be reached"
        refused = Refused(RefusalKind.NOT_FOUND, QUEUE, text)
        consumers = self._close(queue, refused)
        queue.resign(refused)
        return consumers

    def end_consumers(self, consumers: Iterable[Consumer], refused: Refused | None = None) -> None:
        """Notify clients that consumers are cancelled, or their queue closed by an error."""
        self._turns.gone += ((consumer, refused) for consumer in consumers)
        self._turns.soon()

    def _close(self, queue: AnyQueue, refused: Refused) -> list[Consumer]:
        """Have a queue refused by an error from now on; return its consumers."""
        self.queues[queue.name] = self.targets[queue.name] = ClosedQueue(queue, refused)
        self._stop(queue)
        return list(queue.consumers)
