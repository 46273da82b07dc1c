"""The running queues of one virtual host, by name, with the vhost's model."""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from headrace.model.errors import HeadraceError
from headrace.model.invariant import InvariantError
from headrace.ports.deadlines import Deadlines
from headrace.queue_stores.message_store import MessageStore
from headrace.queue_stores.queue_settings import Published, PublishedRun, QueueType
from headrace.queues.awaited import Awaited, note_number, when_all_stored
from headrace.queues.engine.dead_letter_publishing import DeadLetterPublishing
from headrace.queues.engine.delivery_turns import AnyQueue, BatchingQueue, DeliveryTurns
from headrace.queues.engine.hosted_queue import Hooks, HostedQueue, MakeStore
from headrace.queues.engine.parts.closing_host import ClosingHost
from headrace.queues.engine.parts.publishes_ahead import HostedQueues, PublishesAhead
from headrace.queues.engine.stream_queue import StreamQueue
from headrace.queues.engine.targets import Targets, TopicStoreOf
from headrace.queues.model.bindings import Removed
from headrace.queues.model.declarations import (
    Arguments,
    DeclaredQueue,
    Owner,
    QueueCounts,
    QueueFlags,
)
from headrace.queues.model.virtual_host import VirtualHost
from headrace.queues.permissions.access import FULL_ACCESS, Access
from headrace.queues.port import ConsumeDone, Consumer, PurgeDone, Queue, Target, UnstoredDone
from headrace.queues.refusals import QUEUE, Refused, resource_text

_logger = logging.getLogger(__name__)


class QueueHost(ClosingHost):
    """The queues of one vhost. Deliveries that a change allows are made in the next turn."""

    def __init__(
        self,
        model: VirtualHost,
        turns: DeliveryTurns,
        deadlines: Deadlines,
        make_store: MakeStore,
        topic_store: TopicStoreOf | None = None,
    ) -> None:
        """Create a host with no queues yet.

        `topic_store` returns the store of a Kafka topic; None: exchanges store in no topics.
        """
        self.model = model
        self.queues: dict[str, AnyQueue] = {}
        self.targets = Targets(topic_store)
        """The queues and Kafka topics that routes name."""
        self._ahead = PublishesAhead(self.queues, self.targets, self._publish_to)
        self._direct: HostedQueues = self.queues
        self.ended: Callable[[str], None] | None = None
        """Deletes a queue that has expired or that its last consumer left; None: the host does."""
        self._turns = turns
        self._deadlines = deadlines
        self._clock = deadlines.clock
        self._make_store = make_store
        self._dead_letters = DeadLetterPublishing(self, deadlines)

    @property
    def name(self) -> str:
        """The name of the vhost whose queues these are."""
        return self.model.name

    # Queues

    def declare_queue(
        self,
        name: str,
        flags: QueueFlags,
        arguments: Arguments,
        owner: Owner,
        access: Access = FULL_ACCESS,
    ) -> AnyQueue:
        """Declare a queue; return it, whether new or not. Raises Refused."""
        queue, created = self.model.declare_queue(name, flags, arguments, owner, access)
        if not created:
            hosted = self.queues[queue.name]
            self._touch(hosted)
            return hosted
        try:
            return self.host(queue)
        except Refused:
            self.model.remove_queue(queue.name)
            raise

    def host(
        self, queue: DeclaredQueue, kept: Mapping[int, MessageStore] | None = None
    ) -> AnyQueue:
        """Run a queue of the model, with its existing stores `kept`, by priority.

        Raises Refused for a stream without a log.
        """
        hosted: AnyQueue
        title, hooks = self._title(queue.name), Hooks(self._time_up, self._readable, self.broke)
        if queue.settings.queue_type is QueueType.STREAM:
            store = (kept or {}).get(0) or self._make_store(queue, 0)
            hosted = StreamQueue(queue, title, store, hooks)
        else:
            hosted = HostedQueue(queue, title, self._make_store, self._deadlines, hooks, kept)
        self.queues[queue.name] = self.targets[queue.name] = hosted
        self._ahead.hosted(hosted)
        if self._turns.leadership is not None and isinstance(hosted, HostedQueue):
            self._turns.leadership.hosted(self.name, hosted)
        if hosted.timed:
            hosted.arm()
        return hosted

    def queue(self, name: str, owner: Owner, *, passive: bool = False) -> Queue:
        """Return a queue; raise Refused unless it exists and `owner` may use it.

        `passive`: count this as a use, which postpones the queue's expiry.
        """
        found = self.model.check_queue(name, owner).name
        queue = self.queues.get(found)
        if queue is None:
            return self.targets.queue_elsewhere(found)
        if passive:
            queue.touch(self._clock.monotonic())
        return queue

    def delete_queue(
        self,
        name: str,
        owner: Owner,
        *,
        if_unused: bool,
        if_empty: bool,
        access: Access = FULL_ACCESS,
    ) -> int:
        """Delete a queue; return how many messages were ready, 0 if no such queue exists.

        Raises Refused, also where `if_unused` or `if_empty` does not hold.
        """
        hosted = self.queues.get(name)
        counts = QueueCounts()
        if hosted is not None:
            counts = QueueCounts(hosted.ready, len(hosted.consumers))
        removed = self.model.delete_queue(
            name, owner, counts, if_unused=if_unused, if_empty=if_empty, access=access
        )
        return self._remove(removed)

    def owner_gone(self, owner: Owner) -> None:
        """Delete the queues that were exclusive to a closed connection."""
        for removed in self.model.connection_closed(owner):
            self._remove(removed)

    def clear(self) -> None:
        """Delete all queues, exchanges, bindings and policies: the vhost is deleted."""
        for name in list(self.queues):
            self._remove(self.model.remove_queue(name))
        self.model.clear()

    def drop(self, removed: Removed) -> None:
        """Delete the running queues that were removed from the model."""
        names = tuple(name for name in removed.queues if name in self.queues)
        if names:
            self._remove(Removed(names))
            self._turns.soon()

    def _remove(self, removed: Removed) -> int:
        """Delete the running queues that the model removed; return how many messages were ready."""
        count = 0
        for name in removed.queues:
            hosted = self.queues.pop(name)
            del self.targets[name]
            self._stop(hosted)
            self._turns.gone += ((consumer, None) for consumer in hosted.consumers)
            count += hosted.delete()
        return count

    def _stop(self, queue: AnyQueue) -> None:
        """Stop the timers of a queue that is deleted or closed, and end its right to be led."""
        queue.disarm()
        self._dead_letters.forget(queue)
        if self._turns.leadership is not None and isinstance(queue, HostedQueue):
            self._turns.leadership.removed(self.name, queue)

    def _title(self, name: str) -> str:
        return resource_text(QUEUE, name, self.model.name)

    # Publishing

    def _publish_to(self, queues: HostedQueues) -> None:
        self._direct = queues

    def publish(
        self,
        route: Collection[str],
        message: Published,
        awaited: Awaited | None = None,
        number: int = 0,
        queues: HostedQueues | None = None,
    ) -> bool:
        """Publish a message to all targets of a route; return False if any does not accept it.

        Targets that report the message as stored only later are added to `awaited`, where the
        message has the publisher's `number`. `queues`: look hosted ones up here.
        """
        now = self._clock.monotonic()
        taken = True
        queues = queues or self._direct
        for name in route:
            own = queues.get(name)
            target = self.targets[name] if own is None else own
            try:
                if not target.publish(message, now):
                    taken = self._not_taken(route, target, None, first=taken)
            except HeadraceError as error:
                taken = self._not_taken(route, target, str(error), first=taken)
            except InvariantError as error:
                if own is None:  # a topic's log: the broker's
                    raise
                taken = self._not_taken(route, target, None, first=taken)
                self.broke(own, error)
                continue
            if own is not None:
                if own.takes_turns:
                    self._turns.due(own, self)
                if own.timed or message.expiration_ms is not None:
                    own.timed = True
                    own.arm()
            if (
                awaited is not None
                and target.confirms_late
                and (message.persistent or target.confirms_transient)
            ):
                target_number = target.last_number
                if target_number is None:
                    awaited[target] = None
                else:
                    note_number(awaited, target, target_number, number)
        return taken

    def publish_batch(
        self, queue: BatchingQueue, runs: Sequence[PublishedRun], batch: bytes, awaited: Awaited
    ) -> int | None:
        """Publish a producer's batch to a queue; return how many messages it has room for.

        With fewer than all it has accepted none. None: the batch is refused as a whole.
        """
        try:
            room = queue.publish_batch(runs, batch, self._clock.monotonic())
        except HeadraceError as error:
            queue.failure = str(error)
            return None
        except InvariantError as error:
            self.broke(queue, error)
            return None
        if queue.takes_turns:
            self._turns.due(queue, self)
        if queue.timed or any(run.expiration_ms is not None for run in runs):
            queue.timed = True
            queue.arm()
        awaited[queue] = None
        return room

    def _not_taken(
        self, route: Collection[str], target: Target, failure: str | None, *, first: bool
    ) -> bool:
        """Note why a target did not accept a message; None: it is full or broken. Return False.

        With the `first` target that did not, failures of earlier publishes are forgotten: their
        publishers may not have read them.
        """
        if first:
            for name in route:
                self.targets[name].failure = None
        target.failure = failure
        return False

    def when_stored(self, awaited: Awaited, done: UnstoredDone) -> None:
        """Call `done` with the publisher's numbers of unstored messages, once all are decided."""
        if len(awaited) == 1:
            target, numbers = next(iter(awaited.items()))
            if numbers is None:  # the usual case: there is nothing to translate
                target.when_stored(done)
                return
        when_all_stored(awaited, done)

    # Consumers

    def consume(self, consumer: Consumer, done: ConsumeDone) -> None:
        """Add a consumer to its queue, and call `done`; raise Refused, or pass it to `done`."""
        queue = consumer.queue
        queue.consume(consumer, self._clock.monotonic(), done)
        self.touched((queue,))

    def cancel(self, consumer: Consumer) -> None:
        """Remove a consumer, and an auto-delete queue with its last one."""
        queue = self._own(consumer.queue)
        if queue is None:
            if self.targets.has_elsewhere(consumer.queue):
                consumer.queue.cancel(consumer, self._clock.monotonic())
            return
        queue.cancel(consumer, self._clock.monotonic())
        self._turns.due(queue, self)
        self._remove_if_left(queue)

    def _remove_if_left(self, queue: AnyQueue) -> bool:
        """Remove an auto-delete queue whose last consumer has left; return whether it was."""
        if queue.is_left and not queue.paused:
            if self.ended is None:
                self._remove(self.model.consumer_gone(queue.name, len(queue.consumers)))
            elif queue.declared.auto_delete and not queue.consumers:
                self.ended(queue.name)
        return queue.deleted

    def check_reads(self, queue: Queue, access: Access) -> None:
        """Raise Refused unless a stream's Kafka topic can be read and the user may read it."""
        self.model.check_reads(self.model.queues[queue.name], access)

    def dismiss(self, queue: AnyQueue) -> None:
        """Cancel all consumers of a queue, which stays; they are notified in the next turn."""
        gone = list(queue.consumers)
        for consumer in gone:
            queue.cancel(consumer, self._clock.monotonic())
        self._turns.gone += ((consumer, None) for consumer in gone)
        self._turns.soon()

    def purge(self, queue: Queue, done: PurgeDone) -> None:
        """Settle all ready messages; `done` takes their number. Raises Refused for a stream."""
        own = self._own(queue)
        if own is None and self.targets.get(queue.name) is not queue:  # deleted or replaced
            done(0)
            return
        queue.ask_purge(done)
        if own is not None:
            self._touch(own)

    def touched(self, queues: Iterable[Queue]) -> None:
        """Have queues deliver whose messages were settled or whose consumers have credit again.

        Deleted queues are skipped.
        """
        own = [found for each in queues if (found := self._own(each)) is not None]
        self._turns.due_in_turn(own, self)

    def _own(self, queue: Queue) -> AnyQueue | None:
        """Return a queue of this vhost; None: it was deleted or replaced."""
        found = self.queues.get(queue.name)
        return found if found is queue else None

    def _touch(self, queue: AnyQueue) -> None:
        queue.touch(self._clock.monotonic())
        self._turns.due(queue, self)

    def _readable(self, queue: AnyQueue) -> None:
        if not queue.deleted:
            self._turns.due(queue, self)
            self._turns.soon()

    def broke(self, queue: AnyQueue, error: InvariantError) -> None:
        """Close a queue whose state contradicts itself, and notify its consumers."""
        if self._own(queue) is None:
            return
        self._turns.broken += 1
        _logger.error(
            "%s is closed, its messages on disk stay: an invariant is broken: %s. Its consumers'"
            " connections are closed (541). Please report this. Delete the queue and declare it"
            " again, or restart the broker to read it from the disk", queue.title, error,
            exc_info=error,
        )  # fmt: skip
        self.close_broken(queue, error)

    # Time

    def may_act(self, queue: AnyQueue) -> bool:
        """Return whether a timer may change a queue: it exists, and this broker leads it alone."""
        if self._turns.leadership is not None:
            self._turns.leadership.check()
        return not queue.deleted and not queue.paused

    def _time_up(self, queue: AnyQueue) -> None:
        if not self.may_act(queue):
            return
        try:
            expired = queue.expire(self._clock.monotonic())
        except InvariantError as error:
            self.broke(queue, error)
            return
        if expired and self.ended is not None:
            self.ended(queue.name)
        elif expired:
            self._remove(self.model.remove_queue(queue.name))
        elif not self._remove_if_left(queue):
            self._turns.due(queue, self)
            queue.arm()
        self._turns.soon()

    # Dead letters

    def publish_dead_letters(self, queue: AnyQueue) -> int:
        """Publish a queue's dead letters by its dead letter exchange; return their number."""
        return self._dead_letters.publish(queue)
