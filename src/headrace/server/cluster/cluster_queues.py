"""`ClusterQueues`: the queues of a cluster on one broker, for its channels and for other brokers.

channels here ──► RemoteQueue ──► QueueLinks ──► the leader          queues led elsewhere
other brokers ──► PeerService ──► QueueSessions ──► hosted queue     queues led here
"""

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from headrace.broker.broker import Broker
from headrace.broker.metadata_image import ImageDelta
from headrace.model.errors import ApiError
from headrace.model.nouns import BrokerId, LeaderEpoch, TopicPartition
from headrace.ports.callbacks import Done
from headrace.queues.engine.delivery_turns import AnyQueue
from headrace.queues.engine.queue_host import QueueHost
from headrace.queues.engine.virtual_hosts import VirtualHosts
from headrace.queues.model.declaration_table import Applied
from headrace.queues.model.declarations import DeclaredQueue
from headrace.queues.port import Consumer, Queue
from headrace.queues.queue_names import QueueName, queue_of_topic, queue_topic
from headrace.queues.refusals import QUEUE, resource_text
from headrace.remote_queues.home.home_session import HomeSession
from headrace.remote_queues.home.queues_elsewhere import Leader, QueuesElsewhere
from headrace.remote_queues.leader.queue_sessions import QueueSessions
from headrace.server.cluster.queue_links import QueueLinks
from headrace.vhosts.replicated_topics import ReplicatedTopics

if TYPE_CHECKING:
    from headrace.queue_stores.log.log_writing import Crowded

NO_LEADER = -1
HomeOf = Callable[[str, DeclaredQueue], BrokerId | None]
"""Returns the broker that has a transient queue in its memory; None: it is not declared."""
NewProducerId = Callable[[Done[int | ApiError]], None]


class ClusterQueues:
    """Which queues of the vhosts other brokers lead. Implements `queues_elsewhere.Leaders`."""

    def __init__(
        self,
        broker: Broker,
        virtual_hosts: VirtualHosts,
        links: QueueLinks,
        home_of: HomeOf,
        new_producer_id: NewProducerId,
        topics: ReplicatedTopics,
    ) -> None:
        """Begin without queues. `links` have the sessions with other brokers."""
        self.sessions = QueueSessions(
            virtual_hosts.hosts, virtual_hosts.deadlines, virtual_hosts.turns.soon
        )
        """Sessions of other brokers with the queues that this broker leads."""
        self.crowded: list[Crowded] = []
        """Queues for whose leaders too much waits."""
        self.new_producer_id = new_producer_id
        self.topics = topics
        """The topics of durable queues, which have none before their first use."""
        self._broker = broker
        self._virtual_hosts = virtual_hosts
        self._links = links
        self._home_of = home_of
        self._elsewhere = QueuesElsewhere(self, broker.clock, self.crowded, self._touched)
        self._hashed: dict[str, QueueName] = {}
        """Queues by topics whose names do not say which queue they have."""
        broker.image.observers.append(self._image_changed)

    def close(self) -> None:
        """End all sessions: the broker stops."""
        self._broker.image.observers.remove(self._image_changed)
        self.topics.close()
        self._elsewhere.close()
        self.sessions.close()
        self._links.close()

    def _touched(self, vhost: str, queues: Iterable[Queue]) -> None:
        host = self._virtual_hosts.hosts.get(vhost)
        if host is not None:
            host.touched(queues)
            self._virtual_hosts.turns.soon()

    # Declarations

    def changed(self, vhost: str, applied: Applied) -> None:
        """Open a declared queue that another broker leads, and end those that were deleted."""
        host = self._virtual_hosts.hosts[vhost]
        for name in applied.removed.queues:
            removed = host.targets.elsewhere.pop(name, None)
            if removed is not None and host.targets.get(name) is removed:
                del host.targets[name]
            self._hashed.pop(queue_topic(vhost, name), None)
            self._elsewhere.close_queue(QueueName(vhost, name))
        if isinstance(applied.added, DeclaredQueue):
            self._place(QueueName(vhost, applied.added.name))

    def moved(self, host: QueueHost, queue: AnyQueue, consumers: Collection[Consumer]) -> None:
        """Open a queue that this broker does not lead any more, with its consumers here.

        Implements `led_queues.Moved`.
        """
        self.sessions.moved(host.name, queue.name)
        self._place(QueueName(host.name, queue.name), consumers)

    def _place(self, name: QueueName, consumers: Collection[Consumer] = ()) -> None:
        """Open a queue unless it is hosted here, and look for its leader."""
        host = self._virtual_hosts.hosts.get(name.vhost)
        queue = None if host is None else host.model.queues.get(name.queue)
        if host is None or queue is None:
            return
        topic = queue_topic(*name)
        if queue.durable and queue_of_topic(topic) is None:
            self._hashed[topic] = name
        hosted = host.queues.get(name.queue)
        if hosted is not None and hosted.refused is None:
            self._elsewhere.look(name)  # it may have consumers from before
            return
        title = resource_text(QUEUE, name.queue, name.vhost)
        remote = self._elsewhere.open(name.vhost, queue, title, consumers)
        host.targets.elsewhere[name.queue] = host.targets[name.queue] = remote
        host.queues.pop(name.queue, None)  # the placeholder of a queue that was led here
        self._elsewhere.look(name)

    # Leaders: `queues_elsewhere.Leaders`

    def leader_of(self, name: QueueName) -> Leader | None:
        """Return a queue's leader as the metadata image has it; None: it has none."""
        host = self._virtual_hosts.hosts.get(name.vhost)
        queue = None if host is None else host.model.queues.get(name.queue)
        if queue is None:
            return None
        if not queue.durable:
            home = self._home_of(name.vhost, queue)
            return None if home is None else Leader(home, LeaderEpoch(0))
        topic = self._broker.image.topics.get(queue_topic(*name))
        if topic is None or topic.partitions[0].leader == NO_LEADER:
            return None
        return Leader(topic.partitions[0].leader, topic.partitions[0].leader_epoch)

    def is_unused(self, name: QueueName) -> bool:
        """Return whether a durable queue was never used: it has no topic, and so no message."""
        return not self.topics.exists(name)

    def use(self, vhost: str, queue: DeclaredQueue) -> None:
        """Have the topic of a durable queue created, unless it exists."""
        self.topics.want(vhost, queue)

    def session(self, leader: BrokerId) -> HomeSession | None:
        """Return the session with a leader; None: it is not registered."""
        return self._links.session(leader)

    def _image_changed(self, delta: ImageDelta, structural: bool) -> None:
        """Look for the leaders of queues whose partitions have changed."""
        if delta.brokers is not None:
            epochs = {broker.broker_id: broker.epoch for broker in delta.brokers}
            self.sessions.keep(epochs)
        for topic in (*delta.partitions, *(topic.name for topic in delta.topics)):
            name = queue_of_topic(topic) or self._hashed.get(topic)
            if name is not None:
                self._place(name)

    # The right to lead: `LeadingRights.homes_of`, `QueueLeadership.wait_for_homes`

    def homes_of(self, partition: TopicPartition) -> frozenset[BrokerId]:
        """Return the brokers whose channels may hold deliveries of a led partition's queue."""
        name = self._name_of(partition.topic)
        return frozenset() if name is None else frozenset(self.sessions.homes_of(*name))

    def wait_for_homes(
        self, topic: str, homes: Collection[BrokerId], attached: Callable[[], None]
    ) -> None:
        """Call `attached` once these brokers have attached to the queue of a topic."""
        name = self._name_of(topic)
        if name is None:
            attached()
        else:
            self.sessions.wait_for(*name, homes, attached)

    def _name_of(self, topic: str) -> QueueName | None:
        return queue_of_topic(topic) or self._hashed.get(topic)
