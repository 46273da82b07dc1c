"""The durable part of a broker's AMQP: of a single broker, and of one in a cluster.

Both implement `session.DurableState`.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.frontends.amqp.parts import Parts
from headrace.model.protocols import AMQP_TOPICS
from headrace.net.write_pass import WritePass
from headrace.posix.awaiting import called_back
from headrace.queue_stores.memory.spill import Spill
from headrace.queue_stores.memory.spill_files import SpillFiles
from headrace.vhosts.kafka_admin_of_queue_topics import TopicsOfQueues
from headrace.vhosts.policies.stream_topics import StreamTopics
from headrace.vhosts.read_topics import ReadTopics
from headrace.vhosts.restore import Restoring

if TYPE_CHECKING:
    from headrace.frontends.amqp.queue_broker import QueueBroker
    from headrace.queue_stores.log.queue_logs import QueueLogs
    from headrace.queue_stores.message_store import LateStore
    from headrace.vhosts.access import Admission
    from headrace.vhosts.declarations.declaration_log import DeclarationLog
    from headrace.vhosts.declarations.takeover import DeclarationNodes
    from headrace.vhosts.durable_queues import DurableQueues


class StoredMessages:
    """The logs of queues of one broker, and its spill files.

    Spill files have messages that exceed the memory; they are deleted when the broker stops.
    """

    def __init__(self, parts: Parts, logs: "QueueLogs", queues: "QueueBroker") -> None:
        """Create before the broker's logs are open."""
        self.logs = logs
        self.writes = WritePass(parts.writes)
        self._broker = broker = parts.broker
        self._virtual_hosts = queues.virtual_hosts
        self._stream_topics = StreamTopics(broker, parts.controller.settings, queues.virtual_hosts)
        queues.policy_visits.queue_changed.append(self._stream_topics.queue_changed)
        self._spill = Spill(
            queues.memory,
            SpillFiles(broker.disk, broker.config.log_dirs[0]),
            queues.virtual_hosts.deadlines,
            queues.virtual_hosts.queues,
        )

    async def stop(self) -> None:
        """Write the state of the queues, close their stores and delete the spill files."""
        self._stream_topics.close()
        removed = asyncio.ensure_future(called_back(self._removed_spill))
        await self._close(
            [store for queue in self._virtual_hosts.queues() for store in queue.late_stores]
        )
        await removed

    async def _close(self, stores: "list[LateStore]") -> None:
        """Close the stores of all queues."""

    def _removed_spill(self, done: Callable[[None], None]) -> None:
        self._spill.close(lambda: done(None))


class OwnState(StoredMessages):
    """Durable declarations and messages of a single broker."""

    def __init__(
        self,
        parts: Parts,
        declarations: "DeclarationLog",
        nodes: "DeclarationNodes",
        admission: "Admission",
        durable: "DurableQueues",
        queues: "QueueBroker",
    ) -> None:
        """Create before the broker's logs are open. `nodes`: those of earlier versions."""
        super().__init__(parts, durable.of_queues.logs, queues)
        self._declarations = declarations
        self._nodes = nodes
        self._admission = admission
        self.queues = durable
        self._visits = queues.policy_visits

    async def start(self) -> None:
        """Restore declarations and queues, and begin to follow changes of Kafka topics."""
        broker, virtual_hosts = self._broker, self._virtual_hosts
        await Restoring(
            broker, self.queues, virtual_hosts, self._declarations, self._nodes, self._visits
        ).restore()
        self._stream_topics.look()
        topics = TopicsOfQueues(broker, self.queues, virtual_hosts, self._admission)
        broker.topic_keepers.add(AMQP_TOPICS, topics)
        ReadTopics(broker.image, virtual_hosts)

    async def _close(self, stores: "list[LateStore]") -> None:
        await self.queues.close(stores)
        self._declarations.close()
