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
from headrace.coordination.queues.message_store import MessageStore, TopicStore
from headrace.coordination.queues.messages.durable_messages import DurableMessages, QueueLogs
from headrace.coordination.queues.messages.settled_files import SettledFiles
from headrace.coordination.queues.model.bindings import Removed
from headrace.coordination.queues.model.declarations import Queue
from headrace.coordination.queues.model.durability import Declared, KeptDone, Model
from headrace.coordination.queues.model.exchanges import Binding, Exchange
from headrace.coordination.queues.model.stored_model import (
    BindingRecord,
    ExchangeRecord,
    QueueRecord,
    Record,
    binding_record,
    exchange_record,
    queue_record,
)
from headrace.coordination.queues.model.stored_records import encode_record, record_name
from headrace.coordination.queues.queue_names import queue_topic
from headrace.frontends.amqp.exchange_topics import ExchangeTopics
from headrace.model.errors import ApiError, ErrorCode, HeadraceError
from headrace.ports.store import Create, Delete, NodeExists, NoNode, Operation, Store, StoreError

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.broker.partition import Partition

_logger = logging.getLogger(__name__)

ROOT = "/headrace-amqp"
DECLARATIONS = f"{ROOT}/declarations"
"""A node for each durable exchange, queue and binding of all vhosts."""
OPERATIONS_MAX = 500
"""So many nodes are written together at most."""
RETRY_SECONDS = 1.0
"""After which what could not be written is tried again, if nothing else is declared before."""
SEGMENT_BYTES = 64 * 1024 * 1024
"""Of a queue's log: what is settled goes by whole segments."""
RECORD_BYTES_MAX = 20 * 1024 * 1024
"""The largest record of a queue: the largest message, and what its properties take."""

_TOPIC_CONFIG = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "max.message.bytes": str(RECORD_BYTES_MAX),
    "message.timestamp.type": "CreateTime",
    "min.insync.replicas": "1",
    "retention.bytes": "-1",
    "retention.ms": "-1",
    "segment.bytes": str(SEGMENT_BYTES),
}


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
    """`coordination.queues.model.durability.Durability` of one broker."""

    def __init__(self, broker: "Broker", controller: ControllerPort, store: Store) -> None:
        self.logs = QueueLogs(SettledFiles(broker.disk, broker.clock), broker.clock, self._want)
        self.topics = ExchangeTopics(broker, controller, self.logs)
        self._broker = broker
        self._controller = controller
        self._store = store
        self._stored: set[str] = set()
        """Nodes that are there, or will be once the present round is over."""
        self._next = _new_round()
        self._running: asyncio.Task[None] | None = None

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
        self._run_soon()

    # Queues' topics

    def make_store(self, vhost: str, queue: Queue, priority: int) -> MessageStore:
        """Make the store of one priority of a durable queue. `Durability`."""
        return DurableMessages(self.logs, vhost, queue, priority)

    def topic_store(self, topic: str) -> TopicStore:
        """Return what stores messages in a topic for exchanges. `Durability`."""
        return self.topics.writer(topic)

    def _want(self, messages: DurableMessages) -> None:
        topic = queue_topic(messages.vhost, messages.queue.name)
        self._next.wanted.setdefault(topic, []).append(messages)
        self._run_soon()

    async def topic_made(self) -> None:
        """Wait until the topics are there that have been wanted so far, if they can be."""
        ended = asyncio.get_running_loop().create_future()
        self._next.ended.append(lambda: ended.set_result(None))
        self._run_soon()
        await ended

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
                if not await self._play(present):
                    self._broker.clock.call_later(RETRY_SECONDS, self._run_soon)
                    return
        finally:
            self._running = None

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

    def _new_topic(self, topic: str, queue: Queue) -> NewTopic:
        count = (queue.settings.priority_max or 0) + 1
        here = dict.fromkeys(range(count), (self._broker.broker_id,))
        return NewTopic(topic, assignment=here, config=_TOPIC_CONFIG)

    # The end

    async def close(self, stores: Sequence[DurableMessages]) -> None:
        """Write down what is known of queues; `stores` are all there are."""
        if self._running is not None:
            await asyncio.shield(self._running)
        await asyncio.gather(*(_closed(messages) for messages in stores))


def _path(node: str) -> str:
    return f"{DECLARATIONS}/{node}"


async def _closed(messages: DurableMessages) -> None:
    closed = asyncio.get_running_loop().create_future()
    messages.close(lambda: closed.set_result(None))
    await closed


def _record(host: Model, declared: Declared) -> Record | None:
    match declared:
        case Exchange():
            return exchange_record(declared)
        case Queue():
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
