"""Durable declarations, and the Kafka topics of durable queues.

Changes are gathered and written in rounds:

    1  append the deletion of declarations to their log
    2  delete the topics of deleted queues
    3  append new declarations; their clients are answered
    4  create the topics that messages wait for

So a queue that is declared again begins empty. A topic without its queue is left only by a crash,
and deleted at the next start.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from headrace.cluster.controller_port import ControllerPort
from headrace.model.errors import ApiError, HeadraceError
from headrace.ports.callbacks import Done
from headrace.ports.store import StoreError
from headrace.posix.awaiting import called_back
from headrace.queue_stores.log.copies_port import CopiedFiles
from headrace.queue_stores.log.durable_messages import DurableMessages
from headrace.queue_stores.memory.memory_use import MemoryUse
from headrace.queue_stores.message_store import LateStore, TopicStore
from headrace.queues.model.bindings import Removed
from headrace.queues.model.declarations import DeclaredQueue
from headrace.queues.model.durability import Declared, KeptDone, Model
from headrace.queues.model.exchanges import Binding, Exchange
from headrace.queues.model.policies.vhost_policy import VhostPolicy
from headrace.queues.model.stored_model import (
    PolicyRecord,
    QueueRecord,
    Record,
    binding_record,
    exchange_record,
    policy_record,
    queue_record,
    removed_records,
)
from headrace.queues.model.stored_records import encode_record, record_key
from headrace.queues.queue_names import queue_topic
from headrace.vhosts.declarations.declaration_log import DeclarationLog
from headrace.vhosts.declarations.stored_changes import Change
from headrace.vhosts.queue_topics import QueueTopics

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

_logger = logging.getLogger(__name__)

TOPICS_AT_ONCE = 500
"""Topics that are created together at most.

Each has open files until its first messages are on disk; the next topics are created then.
"""
RETRY_SECONDS = 1.0
"""Seconds after which a failed round is repeated, if no other change begins one before."""
GATHER_SECONDS = 0.001
"""Seconds for which a round waits for the clients that the last round answered, if several.

A client that declares queues one after the other sends its next declaration at once; so the
declarations of all such clients are written with one flush.
"""


class _Round(NamedTuple):
    """Changes of AMQP declarations and queues' topics that are written together."""

    removed: dict[bytes, Change]
    """Deletions by the keys of their declarations."""
    doomed: dict[str, None]
    """Topics of deleted queues, to be deleted."""
    added: dict[bytes, Change]
    wanted: dict[str, list[DurableMessages]]
    """Message stores that wait for their topic, by topic."""
    awaited: list[KeptDone]
    """Callbacks of clients that wait until declarations are stored."""
    ended: list[Callable[[], None]]
    """Callbacks that wait for the end of the whole round."""

    @property
    def is_empty(self) -> bool:
        return not any(self)


def _new_round() -> _Round:
    return _Round({}, {}, {}, {}, [], [])


class DurableQueues:
    """The durable declarations of one broker. Implements `queues.model.durability.Durability`."""

    def __init__(
        self,
        broker: "Broker",
        controller: ControllerPort,
        declarations: DeclarationLog,
        memory: MemoryUse | None = None,
        copied: CopiedFiles | None = None,
    ) -> None:
        """Create the durable declarations of a broker.

        `memory` counts the messages that wait for their queues' logs. `copied`: the files of
        settled positions that a cluster's brokers copy; None: the broker has no cluster.
        """
        self.of_queues = QueueTopics(broker, controller, self._want, memory, copied)
        self.topics = self.of_queues.of_exchanges
        self._broker = broker
        self._declarations = declarations
        self._stored: set[bytes] = set()
        """Keys of declarations that are stored, may be, or will be after the present round."""
        self._next = _new_round()
        self._running: asyncio.Task[None] | None = None
        self._expected = 0
        """Clients that may wait for the next round: answered by the last one, or waiting."""
        self._gathered: asyncio.Future[None] | None = None
        """Set once `_expected` clients wait; None: no round is waiting for them."""

    def know(self, keys: Iterable[bytes]) -> None:
        """Note the keys of stored declarations at the start, before anything is declared."""
        self._stored.update(keys)

    def doom(self, topics: Iterable[str]) -> None:
        """Schedule the deletion of topics whose queues do not exist."""
        self._next.doomed.update(dict.fromkeys(topics))
        if self._next.doomed:
            self._run_soon()

    # Declarations

    def added(self, host: Model, declared: Declared) -> None:
        """Schedule a declaration to be stored, if it is durable. Implements `Declarations`."""
        record = _record(host, declared)
        if record is None:
            return
        key = record_key(host.name, record)
        # A policy is set in place of an earlier one; all else is declared once.
        is_new = key not in self._stored or key in self._next.removed
        if is_new or isinstance(record, PolicyRecord):
            self._next.added[key] = Change(host.name, encode_record(host.name, record))
            self._run_soon()

    def removed(self, host: Model, removed: Removed) -> None:
        """Schedule the deletion of declarations and of their queues' topics.

        Implements `Declarations`.
        """
        upcoming = self._next
        for record in removed_records(removed):
            key = record_key(host.name, record)
            added = upcoming.added.pop(key, None)
            stored = key in self._stored
            if stored:
                upcoming.removed[key] = Change(host.name, None)
            if (stored or added) and isinstance(record, QueueRecord):
                topic = queue_topic(host.name, record.name)
                upcoming.wanted.pop(topic, None)
                upcoming.doomed[topic] = None
        if not upcoming.is_empty:
            self._run_soon()

    def when_kept(self, done: KeptDone) -> None:
        """Call `done` once all changes so far are stored, or with the error.

        Implements `Declarations`.
        """
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
        """Make the message store of one priority of a durable queue. Implements `Durability`."""
        return self.of_queues.make_store(vhost, queue, priority)

    def topic_store(self, topic: str) -> TopicStore:
        """Return the store of messages that exchanges store in a topic. Implements `Durability`."""
        return self.of_queues.topic_store(topic)

    def _want(self, messages: DurableMessages) -> None:
        topic = queue_topic(messages.vhost, messages.queue.name)
        self._next.wanted.setdefault(topic, []).append(messages)
        self._run_soon()

    async def topic_made(self) -> None:
        """Wait until the topics wanted so far were created, or their creation failed."""

        def ask(done: Done[None]) -> None:
            self._next.ended.append(lambda: done(None))
            self._run_soon()

        await called_back(ask)

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
        """Move topics beyond `TOPICS_AT_ONCE` to the next round, with the callbacks for its end."""
        if len(present.wanted) > TOPICS_AT_ONCE:
            for topic in list(present.wanted)[TOPICS_AT_ONCE:]:
                self._next.wanted[topic] = present.wanted.pop(topic)
            self._next.ended.extend(present.ended)
            present.ended.clear()

    async def _gather(self) -> None:
        """Wait for the clients that may wait for the next round, at most `GATHER_SECONDS`."""
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
        """Write one round; return False if that failed, so that it is repeated."""
        self._stored.difference_update(present.removed)
        self._stored.update(present.added)
        problem: HeadraceError | None = None
        try:
            await self._declarations.append(present.removed)
            present.removed.clear()
            await self.of_queues.delete(list(present.doomed))
            await self._declarations.append(present.added)
        except (StoreError, ApiError) as error:
            problem = error
            _logger.error(
                "AMQP declarations could not be stored, retrying: %s: %s. Connections that wait for"
                " them are closed with INTERNAL_ERROR (541)", type(error).__name__, error,
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
        """Merge the unwritten rest of a failed round into the next one.

        Its declarations may have been stored, so they count as that until they are deleted.
        """
        upcoming = self._next
        self._stored.update(failed.removed)
        # The log's order is that of the commands: an exchange is before its bindings.
        later = dict(upcoming.added)
        upcoming.added.clear()
        for key, change in failed.added.items():
            if key not in upcoming.removed:
                upcoming.added[key] = change
        upcoming.added.update(later)
        upcoming.removed.update(failed.removed)
        upcoming.doomed.update(failed.doomed)
        for topic, stores in failed.wanted.items():
            upcoming.wanted.setdefault(topic, []).extend(stores)

    async def _create(self, wanted: dict[str, list[DurableMessages]]) -> None:
        problems = await self.of_queues.create(
            {topic: stores[0].queue for topic, stores in wanted.items()}
        )
        for topic, stores in wanted.items():
            for messages in stores:
                problem = problems.get(topic)
                messages.have_log(problem or self.of_queues.partition(topic, messages.priority))
        await asyncio.gather(
            *(called_back(store.when_stored) for stores in wanted.values() for store in stores)
        )

    # Close

    async def close(self, stores: Sequence[LateStore]) -> None:
        """Wait for the running round, then close `stores`, the message stores of all queues."""
        if self._running is not None:
            await asyncio.shield(self._running)
        await self.of_queues.close(stores)


def _record(host: Model, declared: Declared) -> Record | None:
    match declared:
        case Exchange():
            return exchange_record(declared)
        case DeclaredQueue():
            return queue_record(declared)
        case Binding():
            return binding_record(host, declared)
        case VhostPolicy():
            return policy_record(declared)
