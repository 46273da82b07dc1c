"""`LedQueues`: runs the queues of a cluster whose partitions this broker leads.

    not led: declared; refused here --opened--> hosted: its log is loaded, publishes wait
                         ^                          | loaded
                         |                          v
                         +-------closed--------- hosted: delivers

A queue that is led again is loaded again, from the newest of the replicas' files of settled
positions. A leader that is elected again while it leads goes on. A queue whose log cannot be loaded
is closed and hosted again after a pause, `LOADS_MAX` times in a term.
"""

import logging
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from headrace.broker.broker import Broker
from headrace.broker.partition import Partition
from headrace.model.errors import ApiError, ErrorCode, HeadraceError
from headrace.model.nouns import LeaderEpoch, TopicPartition
from headrace.ports.backoff import backoff_seconds
from headrace.queue_stores.log.durable_messages import DurableMessages
from headrace.queues.engine.delivery_turns import AnyQueue
from headrace.queues.engine.queue_host import QueueHost
from headrace.queues.engine.virtual_hosts import VirtualHosts
from headrace.queues.model.declarations import DeclaredQueue
from headrace.queues.model.durability import Durability
from headrace.queues.queue_names import QueueName, is_queue_topic, queue_topic
from headrace.vhosts.queue_topics import declared_queue

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.queue_stores.message_store import MessageStore

    Moved = Callable[[QueueHost, AnyQueue], None]
    """Called with a queue that still runs, or that an error has closed: it is to be stopped by
    `QueueHost.unhost`."""

_logger = logging.getLogger(__name__)

LOADS_MAX = 6
"""Attempts to load a queue's log in one term."""
PAUSE_SECONDS_MIN = 1.0
PAUSE_SECONDS_MAX = 30.0
"""Seconds between two attempts: twice as many after each."""


class _Term(NamedTuple):
    """The store of a partition that is led."""

    store: DurableMessages
    partition: Partition
    epoch: LeaderEpoch
    """The last leader epoch, without a break since the store was loaded."""


class LedQueues:
    """The durable queues that a broker leads. On the deciding thread."""

    def __init__(
        self,
        broker: Broker,
        durable: Durability,
        virtual_hosts: VirtualHosts,
    ) -> None:
        """Create before `begin`; until then no queue runs. `durable` makes the queues' stores."""
        self._broker = broker
        self._durable = durable
        self._virtual_hosts = virtual_hosts
        self.moved: Moved | None = None
        """Takes queues over that are no longer led here; None: their consumers are cancelled."""
        self.is_ready: Callable[[str], bool] = lambda vhost: True
        """Tells whether all queues of a vhost have the settings of their policies.

        Others run later: without a dead letter exchange of its policy a queue would drop messages.
        """
        self._waiting: dict[QueueName, None] = {}
        """Queues that run here once their vhosts are ready."""
        self._terms: dict[tuple[str, int], _Term] = {}
        self._failures: dict[QueueName, int] = {}
        """Failed attempts to load queues in the present term."""
        self._reading: dict[QueueName, Partition] = {}
        """Partitions of Kafka topics that streams run here on."""

    @property
    def count(self) -> int:
        """Number of queues that this broker leads."""
        return len({topic for topic, _ in self._terms})

    def begin(self) -> None:
        """Run the declared queues that are led here, and follow later changes of leaders."""
        for host in self._virtual_hosts.hosts.values():
            for queue in list(host.model.queues.values()):
                self.declared(host, queue)
        self._broker.opened.append(self._opened)
        self._broker.closed.append(self._closed)

    def close(self) -> None:
        """Follow no change any more: the broker stops."""
        self._broker.opened.remove(self._opened)
        self._broker.closed.remove(self._closed)

    def declared(self, host: QueueHost, queue: DeclaredQueue) -> None:
        """Run a declared queue that is led here, and have one refused that is led elsewhere.

        A queue in memory runs already, and so does one without a topic, which has no messages.
        """
        topic = queue_topic(host.name, queue.name)
        if not queue.durable or self._waits(host, queue):
            return
        if queue.settings.topic is not None:
            self._read(host, queue, queue.settings.topic.topic)
            return
        if self._led(topic, queue):
            self._run(host, queue)
        elif topic in self._broker.image.topics:
            self._end(host, queue)

    def _waits(self, host: QueueHost, queue: DeclaredQueue) -> bool:
        """Tell whether a queue is to wait until its vhost is ready."""
        if self.is_ready(host.name):
            return False
        self._waiting[QueueName(host.name, queue.name)] = None
        return True

    def look_again(self) -> None:
        """Run the queues that wait and whose vhosts are ready now."""
        hosts, waiting = self._virtual_hosts.hosts, self._waiting
        self._waiting = {}
        for vhost, name in waiting:
            queue = hosts[vhost].model.queues.get(name) if vhost in hosts else None
            if queue is not None:
                self.declared(hosts[vhost], queue)

    def _led(self, topic: str, queue: DeclaredQueue) -> dict[int, Partition]:
        """Return the partitions of a queue that are led here, by priority."""
        led = self._broker.partitions
        indices = range((queue.settings.priority_max or 0) + 1)
        return {index: led[topic, index] for index in indices if (topic, index) in led}

    # Streams that read Kafka topics

    def _read(self, host: QueueHost, queue: DeclaredQueue, topic: str) -> None:
        """Run a stream where the Kafka topic that it reads is led, or stop running it."""
        partition = self._broker.partitions.get((topic, 0))
        name, present = QueueName(host.name, queue.name), host.queues.get(queue.name)
        if present is not None:
            running = present.refused is None and present.declared is queue
            if running and self._reading.get(name) is partition:
                return
            self._move(host, present)
        self._reading.pop(name, None)
        if partition is not None:
            self._reading[name] = partition
            host.host(queue)

    def _look_at_readers(self, partition: TopicPartition) -> None:
        """Run the streams that read a partition here, or stop running them."""
        if partition.partition or is_queue_topic(partition.topic):
            return
        for host in self._virtual_hosts.hosts.values():
            for name, read in tuple(host.model.router.read_topics.items()):
                if read.topic == partition.topic and not self._waits(host, host.model.queues[name]):
                    self._read(host, host.model.queues[name], read.topic)

    def forget(self, name: QueueName) -> None:
        """Forget a queue that is deleted."""
        self._reading.pop(name, None)
        self._failures.pop(name, None)

    # Partitions

    def _opened(self, partition: Partition) -> None:
        self._look_at_readers(partition.topic_partition)
        found = self._queue_of(partition.topic_partition.topic)
        if found is None:
            return
        term = self._terms.get(partition.topic_partition)
        epoch = partition.leader_epoch
        if term is not None and term.partition is partition and epoch <= term.epoch + 1:
            self._terms[partition.topic_partition] = term._replace(epoch=epoch)
            return
        self._failures.pop(QueueName(found[0].name, found[1].name), None)
        if not self._waits(*found):
            self._run(*found)

    def _closed(self, partition: Partition) -> None:
        self._look_at_readers(partition.topic_partition)
        found = self._queue_of(partition.topic_partition.topic)
        if found is not None:
            self._end(*found)

    def _queue_of(self, topic: str) -> tuple[QueueHost, DeclaredQueue] | None:
        """Return the declared queue of a topic; None: no declared queue has it."""
        return declared_queue(self._virtual_hosts, topic)

    def _run(self, host: QueueHost, queue: DeclaredQueue) -> None:
        """Run a queue on its partitions that are led here, loaded again if it ran before."""
        topic = queue_topic(host.name, queue.name)
        partitions = self._led(topic, queue)
        present = host.queues.get(queue.name)
        ran = self._forget(topic, queue)
        if present is not None and present.refused is None and not ran:
            for late in present.late_stores:  # publishes wait for the topic, which exists now
                if isinstance(late, DurableMessages) and late.priority in partitions:
                    done = partial(self._loaded, host, queue, late)
                    late.have_log(self._begin_term(late, partitions[late.priority]), done)
            return
        if present is not None:
            self._move(host, present)
        stores: dict[int, MessageStore] = {}
        for index in partitions:
            stores[index] = self._durable.make_store(host.name, queue, index)
        host.host(queue, stores)
        for index, store in stores.items():
            if isinstance(store, DurableMessages):
                done = partial(self._loaded, host, queue, store)
                store.open(self._begin_term(store, partitions[index]), done)

    def _loaded(
        self,
        host: QueueHost,
        queue: DeclaredQueue,
        store: DurableMessages,
        error: HeadraceError | None,
    ) -> None:
        """Note that a queue's log is loaded, or load it again after a pause."""
        name = QueueName(host.name, queue.name)
        if error is None:
            self._failures.pop(name, None)
            return
        moved = isinstance(error, ApiError) and error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        if moved or not self._is_present(host, queue, store):
            return
        failures = self._failures[name] = self._failures.get(name, 0) + 1
        if failures >= LOADS_MAX:
            _logger.error(
                "queue %r (vhost %r) is unavailable, its log cannot be loaded: %s. Have another"
                " replica lead it, or repair the log and restart the broker",
                queue.name, host.name, error,
            )  # fmt: skip
            return
        seconds = backoff_seconds(failures, PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX)
        _logger.warning(
            "queue %r (vhost %r) is unavailable, its log cannot be loaded: %s. Retrying in %.0f s",
            queue.name, host.name, error, seconds,
        )  # fmt: skip
        self._broker.clock.call_later(seconds, partial(self._load_again, host, queue, store))

    def _load_again(self, host: QueueHost, queue: DeclaredQueue, store: DurableMessages) -> None:
        if self._is_present(host, queue, store):
            self._run(host, queue)

    def _is_present(self, host: QueueHost, queue: DeclaredQueue, store: DurableMessages) -> bool:
        """Tell whether a queue is neither deleted, nor led elsewhere, nor loaded again by now."""
        term = self._terms.get((queue_topic(host.name, queue.name), store.priority))
        declared = host.model.queues.get(queue.name)
        return term is not None and term.store is store and declared is queue

    def _begin_term(self, store: DurableMessages, partition: Partition) -> Partition:
        term = _Term(store, partition, partition.leader_epoch)
        self._terms[partition.topic_partition] = term
        return partition

    def _end(self, host: QueueHost, queue: DeclaredQueue) -> None:
        """Have a queue refused: no partition, or not all, are led here."""
        self._forget(queue_topic(host.name, queue.name), queue)
        hosted = host.queues.get(queue.name)
        if hosted is not None:
            self._move(host, hosted)

    def _forget(self, topic: str, queue: DeclaredQueue) -> bool:
        """Forget the terms of a queue; return whether there were any."""
        indices = range((queue.settings.priority_max or 0) + 1)
        terms = [self._terms.pop((topic, index), None) for index in indices]
        return any(terms)

    def _move(self, host: QueueHost, hosted: AnyQueue) -> None:
        """Stop running a queue, unless an error has closed it, and hand its consumers over."""
        if self.moved is not None:
            self.moved(host, hosted)
        elif hosted.refused is None:
            host.end_consumers(host.unhost(hosted))
