"""Durable declarations in the metadata store, and the topics of durable queues.

What changes is gathered and written in rounds: removals first, with the topics of deleted queues,
then what is declared, then topics that messages wait for. So a queue that is declared again begins
empty, and no topic is there without its queue but after a kill: those go at the next start.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from headrace.cluster.controller_port import ControllerPort
from headrace.cluster.topics.creation import NewTopic
from headrace.model.errors import ApiError, ErrorCode, HeadraceError
from headrace.ports.callbacks import Done
from headrace.ports.store import Create, Delete, NodeExists, NoNode, Operation, Store, StoreError
from headrace.posix.awaiting import called_back
from headrace.queues.message_store import LateStore, TopicStore
from headrace.queues.model.bindings import Removed
from headrace.queues.model.declarations import DeclaredQueue
from headrace.queues.model.durability import Declared, KeptDone, Model
from headrace.queues.model.exchanges import Binding, Exchange
from headrace.queues.model.stored_model import (
    BindingRecord,
    ExchangeRecord,
    QueueRecord,
    Record,
    binding_record,
    exchange_record,
    queue_record,
)
from headrace.queues.model.stored_records import encode_record, record_name
from headrace.queues.queue_names import queue_topic
from headrace.queues.queue_settings import QueueType
from headrace.queues.stores.log.durable_messages import DurableMessages
from headrace.queues.stores.log.log_writing import QueueLogs
from headrace.queues.stores.log.settled_files import SettledFiles
from headrace.queues.stores.memory.memory_use import MemoryUse
from headrace.queues.stores.stream.durable_stream import DurableStream
from headrace.vhosts.exchange_topics import ExchangeTopics
from headrace.vhosts.queue_topics import topic_config

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.broker.partition import Partition

_logger = logging.getLogger(__name__)

ROOT = "/headrace-amqp"
DECLARATIONS = f"{ROOT}/declarations"
"""A node for each durable exchange, queue and binding of all vhosts."""
OPERATIONS_MAX = 500
"""So many nodes are written together at most."""
TOPICS_AT_ONCE = 500
"""So many topics are made together at most, and written to before the next are made: each has files
open until that is on disk."""
RETRY_SECONDS = 1.0
"""After which what could not be written is tried again, if nothing else is declared before."""
GATHER_SECONDS = 0.001
"""How long a round waits for those whom the one before has answered, where they were several: who
declares one queue after the other is back at once, and all are written with one flush."""


class _Round(NamedTuple):
    """What is to be done together."""

    removed: dict[str, None]
    """Nodes."""
    doomed: dict[str, None]
    """Topics of queues that are deleted."""
    added: dict[str, bytes]
    wanted: dict[str, list[DurableMessages]]
    """Stores that wait for their topic."""
    awaited: list[KeptDone]
    """Who waits for what is declared."""
    ended: list[Callable[[], None]]
    """Who waits for all of it."""

    @property
    def is_empty(self) -> bool:
        return not any(self)


def _new_round() -> _Round:
    return _Round({}, {}, {}, {}, [], [])


class DurableQueues:
    """`queues.model.durability.Durability` of one broker."""

    def __init__(
        self,
        broker: "Broker",
        controller: ControllerPort,
        store: Store,
        memory: MemoryUse | None = None,
    ) -> None:
        """`memory` counts the messages that wait for their queues' logs."""
        files = SettledFiles(broker.disk, broker.clock)
        self.logs = QueueLogs(files, broker.clock, self._want, memory)
        self.topics = ExchangeTopics(broker, controller, self.logs)
        self._broker = broker
        self._controller = controller
        self._store = store
        self._stored: set[str] = set()
        """Nodes that are there, or will be once the present round is over."""
        self._next = _new_round()
        self._running: asyncio.Task[None] | None = None
        self._expected = 0
        """Who may wait for the next round: was answered by the last, or came meanwhile."""
        self._gathered: asyncio.Future[None] | None = None
        """Done once so many wait; None: no round waits for them."""

    def know(self, nodes: Iterable[str]) -> None:
        """Take note of the nodes that are there before anything is declared."""
        self._stored.update(nodes)

    def doom(self, topics: Iterable[str]) -> None:
        """Have topics deleted whose queues are not there any more."""
        self._next.doomed.update(dict.fromkeys(topics))
        if self._next.doomed:
            self._run_soon()

    # What is declared

    def added(self, host: Model, declared: Declared) -> None:
        """Keep what was declared, if it is durable. `Declarations`."""
        record = _record(host, declared)
        if record is None:
            return
        node = record_name(host.name, record)
        if node not in self._stored or node in self._next.removed:
            self._next.added[node] = encode_record(host.name, record)
            self._run_soon()

    def removed(self, host: Model, removed: Removed) -> None:
        """Keep it no longer. `Declarations`."""
        upcoming = self._next
        for record in _records_of(removed):
            node = record_name(host.name, record)
            added = upcoming.added.pop(node, None)
            stored = node in self._stored
            if stored:
                upcoming.removed[node] = None
            if (stored or added) and isinstance(record, QueueRecord):
                topic = queue_topic(host.name, record.name)
                upcoming.wanted.pop(topic, None)
                upcoming.doomed[topic] = None
        if not upcoming.is_empty:
            self._run_soon()

    def when_kept(self, done: KeptDone) -> None:
        """Tell `done` once all changes so far are kept for good. `Declarations`."""
        upcoming = self._next
        if self._running is None and not (upcoming.removed or upcoming.added):
            done(None)
            return
        upcoming.awaited.append(done)
        if self._gathered is not None and len(upcoming.awaited) >= self._expected:
            self._have_gathered()
        self._run_soon()

    # Queues' topics

    def make_store(self, vhost: str, queue: DeclaredQueue, priority: int) -> DurableMessages:
        """Make the store of one priority of a durable queue. `Durability`."""
        read = queue.settings.topic
        if read is not None:
            partition = self.partition(read.topic, priority)
            return DurableStream.of_topic(self.logs, vhost, queue, priority, partition)
        is_stream = queue.settings.queue_type is QueueType.STREAM
        kind = DurableStream if is_stream else DurableMessages
        return kind(self.logs, vhost, queue, priority)

    def topic_store(self, topic: str) -> TopicStore:
        """Return what stores messages in a topic for exchanges. `Durability`."""
        return self.topics.writer(topic)

    def _want(self, messages: DurableMessages) -> None:
        topic = queue_topic(messages.vhost, messages.queue.name)
        self._next.wanted.setdefault(topic, []).append(messages)
        self._run_soon()

    async def topic_made(self) -> None:
        """Wait until the topics are there that have been wanted so far, if they can be."""

        def ask(done: Done[None]) -> None:
            self._next.ended.append(lambda: done(None))
            self._run_soon()

        await called_back(ask)

    def partition(self, topic: str, priority: int) -> "Partition | HeadraceError":
        """Return the partition of a queue's priority, or why it is not to be had."""
        try:
            return self._broker.partition(topic, priority)
        except ApiError as error:
            return error

    # Rounds

    def _run_soon(self) -> None:
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            while not self._next.is_empty:
                present, self._next = self._next, _new_round()
                self._put_off(present)
                if not await self._play(present):
                    self._broker.clock.call_later(RETRY_SECONDS, self._run_soon)
                    return
                self._expected = len(present.awaited) + len(self._next.awaited)
                if len(self._next.awaited) < self._expected > 1:
                    await self._gather()
        finally:
            self._running = None

    def _put_off(self, present: _Round) -> None:
        """Leave topics to the next round that are too many for one, and who waits for them all."""
        if len(present.wanted) > TOPICS_AT_ONCE:
            for topic in list(present.wanted)[TOPICS_AT_ONCE:]:
                self._next.wanted[topic] = present.wanted.pop(topic)
            self._next.ended.extend(present.ended)
            present.ended.clear()

    async def _gather(self) -> None:
        """Wait until all are back who may wait for the next round, but not for long."""
        self._gathered = asyncio.get_running_loop().create_future()
        timer = self._broker.clock.call_later(GATHER_SECONDS, self._have_gathered)
        try:
            await self._gathered
        finally:
            timer.cancel()

    def _have_gathered(self) -> None:
        gathered, self._gathered = self._gathered, None
        if gathered is not None and not gathered.done():
            gathered.set_result(None)

    async def _play(self, present: _Round) -> bool:
        """Do what there is; False: the store cannot be written, and it is to be done again."""
        self._stored.difference_update(present.removed)
        self._stored.update(present.added)
        problem: HeadraceError | None = None
        try:
            await self._write(present.removed, lambda node: Delete(_path(node)))
            await self._delete(present.doomed)
            await self._write(present.added, lambda node: Create(_path(node), present.added[node]))
        except (StoreError, ApiError) as error:
            problem = error
            _logger.error(
                "declarations of AMQP are not stored, which is tried again: metadata store: %s: %s",
                type(error).__name__, error,
            )  # fmt: skip
            self._put_back(present)
        for done in present.awaited:
            done(problem)
        if problem is None:
            await self._create(present.wanted)
        for ended in present.ended:
            ended()
        return problem is None

    def _put_back(self, failed: _Round) -> None:
        """Have done with the next round what is left of a failed one."""
        upcoming = self._next
        self._stored.update(failed.removed)
        self._stored.difference_update(failed.added)
        for node, content in failed.added.items():
            if node not in upcoming.removed:
                upcoming.added.setdefault(node, content)
        upcoming.removed.update(failed.removed)
        upcoming.doomed.update(failed.doomed)
        for topic, stores in failed.wanted.items():
            upcoming.wanted.setdefault(topic, []).extend(stores)

    async def _write(
        self, nodes: dict[str, None] | dict[str, bytes], operation: Callable[[str], Operation]
    ) -> None:
        """Write nodes; those that are done are taken out."""
        while nodes:
            some = list(nodes)[:OPERATIONS_MAX]
            try:
                await self._store.multi([operation(node) for node in some])
            except (NoNode, NodeExists):
                # Done by a round that failed behind it.
                for node in some:
                    with suppress(NoNode, NodeExists):
                        await self._store.multi([operation(node)])
            for node in some:
                del nodes[node]

    async def _delete(self, topics: Iterable[str]) -> None:
        there = [topic for topic in topics if topic in self._broker.image.topics]
        if not there:
            return
        for topic, error in (await self._controller.delete_topics(there)).items():
            if error is not None:
                _logger.error(
                    "topic %s of a deleted queue goes with the next start: %s", topic, error
                )

    async def _create(self, wanted: dict[str, list[DurableMessages]]) -> None:
        problems = await self._create_topics(wanted)
        for topic, stores in wanted.items():
            for messages in stores:
                problem = problems.get(topic)
                messages.have_log(problem or self.partition(topic, messages.priority))
        await asyncio.gather(
            *(called_back(store.when_stored) for stores in wanted.values() for store in stores)
        )

    async def _create_topics(self, wanted: dict[str, list[DurableMessages]]) -> dict[str, ApiError]:
        """Create the topics that are missing; returns why some cannot be."""
        missing = [topic for topic in wanted if topic not in self._broker.image.topics]
        if not missing:
            return {}
        new = [self._new_topic(topic, wanted[topic][0].queue) for topic in missing]
        try:
            outcome = await self._controller.create_topics(new)
        except ApiError as error:
            return dict.fromkeys(missing, error)
        return {
            topic: made
            for topic, made in zip(missing, outcome, strict=True)
            if isinstance(made, ApiError) and made.code is not ErrorCode.TOPIC_ALREADY_EXISTS
        }

    def _new_topic(self, topic: str, queue: DeclaredQueue) -> NewTopic:
        count = (queue.settings.priority_max or 0) + 1
        here = dict.fromkeys(range(count), (self._broker.broker_id,))
        return NewTopic(topic, assignment=here, config=topic_config(queue.settings))

    # The end

    async def close(self, stores: Sequence[LateStore]) -> None:
        """Write down what is known of queues; `stores` are all there are."""
        if self._running is not None:
            await asyncio.shield(self._running)
        await asyncio.gather(*(_closed(messages) for messages in stores))


def _path(node: str) -> str:
    return f"{DECLARATIONS}/{node}"


async def _closed(store: LateStore) -> None:
    def close(done: Done[None]) -> None:
        store.close(lambda: done(None))

    await called_back(close)


def _record(host: Model, declared: Declared) -> Record | None:
    match declared:
        case Exchange():
            return exchange_record(declared)
        case DeclaredQueue():
            return queue_record(declared)
        case Binding():
            return binding_record(host, declared)


def _records_of(removed: Removed) -> Iterable[Record]:
    """Yield what may have been stored of what is gone; only what tells it from others counts."""
    for name in removed.queues:
        yield QueueRecord(name, False, {})
    for exchange in removed.exchanges:
        yield ExchangeRecord(exchange.name, "", False, False, {})
    for binding in removed.bindings:
        kind, name = binding.destination
        yield BindingRecord(binding.source, kind, name, binding.routing_key, binding.arguments)
