"""`OrphanedLogs`: logs of partitions that were reassigned to other brokers while this one was down.

The controller orders the deletion of a replica that a reassignment removes once; a broker that is
down does not receive that order. After its start, the log belongs to no assignment. It is deleted
once all assigned replicas are in sync and one of them leads. Until then, or if its topic id differs
from the topic's, it stays and is named in the log.
"""

import logging
from functools import partial
from typing import TYPE_CHECKING

from headrace.cluster.decisions.orders import Stop
from headrace.cluster.store.stored_topic import NEVER_LED, StoredTopic
from headrace.model.errors import HeadraceError
from headrace.model.nouns import TopicPartition
from headrace.posix.awaiting import called_back

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.cluster.membership.applier import Applier
    from headrace.cluster.store.catalog import Catalog
    from headrace.log.log import Log
    from headrace.ports.callbacks import Done

_logger = logging.getLogger(__name__)

LOOK_SECONDS = 30.0
"""Seconds from the start to the first check, and from one check to the next."""


class OrphanedLogs:
    """The logs of this broker that no order concerns, checked periodically.

    On the deciding thread.
    """

    def __init__(self, broker: "Broker", catalog: "Catalog", applier: "Applier") -> None:
        """Create the check for orphaned logs.

        `applier` deletes logs, in sequence with the controller's orders.
        """
        self._broker = broker
        self._catalog = catalog
        self._applier = applier
        self._named: dict[TopicPartition, str] = {}
        """The last message logged about each log; the same message is not logged twice in a row."""

    async def keep_up(self) -> None:
        """Check every `LOOK_SECONDS` until cancelled; errors of the store are logged."""
        while True:
            await called_back(self._soon)
            try:
                await self.look()
            except HeadraceError as error:
                _logger.info(
                    "cannot look for logs of partitions assigned elsewhere: %s; retrying", error
                )

    def _soon(self, done: "Done[BaseException | None]") -> None:
        """Call `done` in `LOOK_SECONDS`."""
        self._broker.clock.call_later(LOOK_SECONDS, partial(done, None))

    async def look(self) -> None:
        """Delete orphaned logs that are not needed, and name the others in the log.

        Raises StoreError or BadPayload.
        """
        logs = self._without_role()
        self._named = {key: text for key, text in self._named.items() if key in logs}
        if not logs:
            return
        topics = await self._catalog.topics(sorted({key.topic for key in logs}), passed_over=[])
        going: list[Stop] = []
        for key, log in logs.items():
            topic = topics.get(key.topic)
            if topic is None or not self._is_elsewhere(topic, key):
                continue
            why = _kept_because(topic, key, log)
            if why:
                self._name(topic, key, log, f"it is kept {why}")
            else:
                self._name(topic, key, log, "it is deleted, as all of them are in sync")
                state = topic.states[key.partition]
                going.append(Stop(key, log.topic_id, state.leader_epoch, delete=True))
        if going:
            await self._applier.delete_unassigned(going)

    def _without_role(self) -> "dict[TopicPartition, Log]":
        """Return the logs that this broker neither leads nor follows."""
        broker = self._broker
        return {
            key: log
            for directory in broker.directories
            if not directory.fenced
            for key, log in directory.logs.items()
            if key not in broker.partitions and key not in broker.followed
        }

    def _is_elsewhere(self, topic: StoredTopic, key: TopicPartition) -> bool:
        """Return whether the partition is assigned, and not to this broker."""
        replicas = topic.node.partitions.get(key.partition)
        return replicas is not None and self._broker.broker_id not in replicas

    def _name(self, topic: StoredTopic, key: TopicPartition, log: "Log", what: str) -> None:
        """Log a message about a log, unless it was the last one about it."""
        if self._named.get(key) == what:
            return
        self._named[key] = what
        _logger.warning(
            "%s: assigned to brokers %s, no longer to this one; a copy of %d bytes is in %s: %s",
            key, list(topic.node.partitions[key.partition]),
            sum(segment.size for segment in log.segments), log.directory, what,
        )  # fmt: skip


def _kept_because(topic: StoredTopic, key: TopicPartition, log: "Log") -> str:
    """Return the reason why a log must not be deleted yet; empty: it may be."""
    state = topic.states.get(key.partition, NEVER_LED)
    if log.topic_id != topic.node.topic_id:
        return "because it has another topic id; delete it if its records are not needed"
    if not set(topic.node.partitions[key.partition]) <= set(state.isr):
        return "until all of them are in sync"
    if state.leader not in state.isr:
        return "until one of them leads"
    return ""
