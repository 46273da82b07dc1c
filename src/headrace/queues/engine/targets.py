"""Targets of routes: queues by name, and Kafka topics by names that no queue can have.

A topic accepts messages like a queue without consumers. The broker's writer stores them
(`vhosts/topic_writer.py`), so a topic's target has no state and is made when a route first
leads to it.
"""

from collections.abc import Callable

from headrace.queue_stores.message_store import TopicStore
from headrace.queue_stores.queue_settings import ExchangeTopic, Published
from headrace.queues.engine.hosted_queue import as_stored
from headrace.queues.model.exchange_topic import is_target, topic_of_target
from headrace.queues.port import Queue, QueueInfo, Target, UnstoredDone
from headrace.queues.refusals import KAFKA_TOPIC, resource_text

TOPICS_KEPT_MAX = 1024
"""Targets of topics in one vhost at most; above, all are dropped and made again on demand."""

TopicStoreOf = Callable[[str], TopicStore]


class TopicTarget:
    """A Kafka topic that exchanges store messages in. Implements `port.Target`."""

    confirms_late = True
    confirms_transient = False
    last_number = None

    def __init__(self, stored: ExchangeTopic, store: TopicStore) -> None:
        self.stored = stored
        self.store = store
        self.title = resource_text(KAFKA_TOPIC, stored.topic, "")
        self.failure: str | None = None

    def publish(self, published: Published, now: float) -> bool:
        """Append a message to the topic and return True; raise HeadraceError if refused."""
        self.store.append(published.message, self.stored.key_header)
        return True

    def when_stored(self, done: UnstoredDone) -> None:
        """Call `done` once all messages published so far are stored. Implements `port.Target`."""
        self.store.when_stored(as_stored(done))


class Targets(dict[str, Target]):
    """All targets of a vhost by name; its host adds and removes queues."""

    def __init__(self, store_of: TopicStoreOf | None) -> None:
        """Create a vhost's targets.

        `store_of` returns a topic's store; None: exchanges store in no topics.
        """
        super().__init__()
        self.open: Callable[[str], Queue | None] | None = None
        """Returns a declared queue that this broker does not host; None: it hosts all."""
        self.known_counts: Callable[[str], QueueInfo | None] | None = None
        """Returns the counts of a queue elsewhere that its leader need not be asked for, if any.

        Raises Refused if no broker can serve the queue. None: this broker hosts all."""
        self.elsewhere: dict[str, Queue] = {}
        """Queues that other brokers lead: used by name where this broker hosts none."""
        self._store_of = store_of
        self._topics: dict[str, TopicTarget] = {}

    def topic(self, name: str) -> TopicTarget:
        """Return the target of a topic that a route names; raise KeyError for other names."""
        return self._topics.get(name) or self._make_topic(name)

    def queue_elsewhere(self, name: str) -> Queue:
        """Return a declared queue that this broker does not host; raise KeyError for others."""
        queue = self.elsewhere.get(name)
        if queue is None and self.open is not None:
            queue = self.open(name)
        if queue is None:
            raise KeyError(name)
        return queue

    def has_elsewhere(self, queue: Queue) -> bool:
        """Tell whether a queue is still declared, and led by another broker or was until now."""
        name = queue.name
        return self.elsewhere.get(name) is queue or self.get(name) is queue

    def __missing__(self, name: str) -> Target:
        """Make the target of a topic, or of a queue elsewhere; raise KeyError for other names."""
        if self.open is not None and not is_target(name):
            return self.queue_elsewhere(name)
        return self._make_topic(name)

    def _make_topic(self, name: str) -> TopicTarget:
        if self._store_of is None or not is_target(name):
            raise KeyError(name)
        if len(self._topics) >= TOPICS_KEPT_MAX:
            for kept in self._topics:
                del self[kept]
            self._topics.clear()
        stored = topic_of_target(name)
        target = TopicTarget(stored, self._store_of(stored.topic))
        self[name] = self._topics[name] = target
        return target
