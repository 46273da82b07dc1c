"""`ClusterQueues`: the queues of a cluster on one broker, for its channels and for other brokers.

channels here ──► RemoteQueue ──► QueueLinks ──► the leader          queues led elsewhere
other brokers ──► PeerService ──► QueueSessions ──► hosted queue     queues led here

A durable queue is hosted by the broker that leads its topic, one in memory by the broker of the
client that declared it. Elsewhere, and while its topic does not exist, it is a `RemoteQueue`,
which is made when a channel first uses it. Its topic is created when a message or a consumer needs
it.
"""

from collections.abc import Callable, Collection, Iterable
from functools import partial

from headrace.broker.broker import Broker
from headrace.broker.metadata_image import ImageDelta, TopicInfo
from headrace.broker.partition import Partition
from headrace.model.errors import ApiError
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.ports.callbacks import Done
from headrace.queue_stores.log.queue_logs import QueueLogs
from headrace.queue_stores.queue_settings import QueueSettings, QueueType
from headrace.queues.engine.delivery_turns import AnyQueue
from headrace.queues.engine.hosted_queue import HostedQueue
from headrace.queues.engine.queue_host import QueueHost
from headrace.queues.engine.virtual_hosts import VirtualHosts
from headrace.queues.model.declaration_table import Applied
from headrace.queues.model.declarations import DeclaredQueue
from headrace.queues.port import NO_HANDOVER, NO_INFO, Handover, Queue, QueueInfo
from headrace.queues.queue_names import QueueName, is_queue_topic, queue_of_topic, queue_topic
from headrace.queues.refusals import QUEUE, resource_text
from headrace.remote_queues.home.home_session import HomeSession
from headrace.remote_queues.home.leader_link import unreachable
from headrace.remote_queues.home.queues_elsewhere import QueuesElsewhere
from headrace.remote_queues.home.remote_queue import RemoteQueue
from headrace.remote_queues.home.replica_readers import Replica
from headrace.remote_queues.leader.queue_sessions import QueueSessions
from headrace.remote_queues.leader.remote_channel import RemoteChannel
from headrace.server.cluster.queue_links import QueueLinks
from headrace.vhosts.led_queues import LedQueues
from headrace.vhosts.replicated_topics import ReplicatedTopics

NO_LEADER = -1
HASHED_CHARS_MIN = 18
"""Characters of the names of a vhost and a queue together from which their topic may be a hash."""
HomeOf = Callable[[str, str], BrokerId | None]
"""Returns the broker that has a transient queue in its memory, by vhost and name; None: none."""
NewProducerId = Callable[[Done[int | ApiError]], None]


class ClusterQueues:
    """Which queues of the vhosts other brokers lead. Implements `queues_elsewhere.Leaders`."""

    def __init__(
        self,
        broker: Broker,
        virtual_hosts: VirtualHosts,
        links: QueueLinks,
        led: LedQueues,
        logs: QueueLogs,
        home_of: HomeOf,
        new_producer_id: NewProducerId,
        topics: ReplicatedTopics,
    ) -> None:
        """Begin without queues.

        `links` have the sessions with other brokers, `led` runs the queues that are led here.
        `logs`: shared by the stores of all queues.
        """
        self.sessions = QueueSessions(
            virtual_hosts.hosts, virtual_hosts.deadlines, virtual_hosts.turns.soon
        )
        """Sessions of other brokers with the queues that this broker leads."""
        self.new_producer_id = new_producer_id
        self.topics = topics
        """The topics of durable queues, which have none before their first use."""
        self._broker = broker
        self._virtual_hosts = virtual_hosts
        self._links = links
        self._led = led
        led.moved = self.moved
        self._home_of = home_of
        self._elsewhere = QueuesElsewhere(
            self, broker.clock, logs.crowded, self._touched, self._closed_idle
        )
        self._windows = logs.windows
        self._hashed: dict[str, QueueName] = {}
        """Queues by topics whose names do not say which queue they have."""
        broker.image.observers.append(self._image_changed)

    @property
    def led_count(self) -> int:
        """Number of durable queues that this broker leads."""
        return self._led.count

    @property
    def remote_queues(self) -> list[RemoteQueue]:
        """The queues of other brokers that channels of this one have used."""
        return self._elsewhere.queues

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

    # Which broker hosts a queue

    def changed(self, vhost: str, applied: Applied) -> None:
        """Host a declared queue here or have channels find it elsewhere; end deleted queues."""
        host = self._host(vhost)
        host.drop(applied.removed)
        for name in applied.removed.queues:
            self._forget(host, QueueName(vhost, name))
        if isinstance(applied.added, DeclaredQueue):
            self._declared(host, applied.added)

    def _declared(self, host: QueueHost, queue: DeclaredQueue) -> None:
        name = QueueName(host.name, queue.name)
        if not queue.durable:
            if self._home_of(*name) == self._broker.broker_id:
                host.host(queue)
            return
        if len(name.vhost) + len(name.queue) >= HASHED_CHARS_MIN:
            topic = queue_topic(*name)
            if queue_of_topic(topic) is None:
                self._hashed[topic] = name
        self._led.declared(host, queue)
        self.queue_changed(host, queue, queue.settings)

    def queue_changed(self, host: QueueHost, queue: DeclaredQueue, before: QueueSettings) -> None:
        """Have the topic of a queue created that expires: only the leader of one ends it."""
        if queue.settings.expires_ms is None:
            return
        if self._broker.broker_id in self.topics.planned(QueueName(host.name, queue.name)):
            self.use(host.name, queue)

    def _forget(self, host: QueueHost, name: QueueName) -> None:
        """End a queue that is not declared any more; its consumers are cancelled."""
        _drop_elsewhere(host, name)
        if len(name.vhost) + len(name.queue) >= HASHED_CHARS_MIN:
            self._hashed.pop(queue_topic(*name), None)
        self._elsewhere.close_queue(name)
        self._led.forget(name)

    def _closed_idle(self, name: QueueName) -> None:
        """Have channels open a queue again for its next use."""
        host = self._virtual_hosts.hosts.get(name.vhost)
        if host is not None:
            _drop_elsewhere(host, name)

    def _host(self, vhost: str) -> QueueHost:
        """Return the host of a vhost, whose channels find queues elsewhere from now on."""
        host = self._virtual_hosts.hosts[vhost]
        if host.targets.open is None:
            host.targets.open = partial(self._open, host)
            host.targets.known_counts = partial(self._known_counts, host)
        return host

    def _open(
        self,
        host: QueueHost,
        name: str,
        handover: Handover = NO_HANDOVER,
    ) -> RemoteQueue | None:
        """Return a queue that this broker does not host, for its channels; None: not declared."""
        queue = host.model.queues.get(name)
        if queue is None:
            return None
        title = resource_text(QUEUE, name, host.name)
        remote = self._elsewhere.open(host.name, queue, title, handover)
        host.targets.elsewhere[name] = host.targets[name] = remote
        return remote

    def _known_counts(self, host: QueueHost, name: str) -> QueueInfo | None:
        """Return the counts of a queue that was never used, for which none need be opened.

        None: its leader is to be asked. Raises Refused if its only broker is down.
        """
        queue = QueueName(host.name, name)
        if self.is_down(queue):
            raise unreachable(resource_text(QUEUE, name, host.name))
        declared = self._queue(queue)
        durable = declared is not None and declared.durable
        return NO_INFO if durable and self.is_unused(queue) else None

    def moved(self, host: QueueHost, queue: AnyQueue) -> None:
        """Have channels use a queue elsewhere that this broker does not lead any more.

        Its consumers here stay subscribed. The next leader is told what their channels hold, and
        of settlements that are not copied. Implements `led_queues.Moved`.
        """
        if isinstance(queue, HostedQueue):
            # Its single active consumer stays: the next leader is told of it.
            self._virtual_hosts.turns.pause(queue)
        self.sessions.moved(host.name, queue.name)  # before its publishes are reported as unstored
        handover = Handover(host.unhost(queue) if queue.refused is None else ())
        if isinstance(queue, HostedQueue):
            handover = queue.handover()
        host.queues.pop(queue.name, None)  # the placeholder of a queue that was led here
        remote = self._open(host, queue.name, handover)
        if remote is None:
            host.targets.pop(queue.name, None)
            host.end_consumers(handover.consumers)
        elif isinstance(queue, HostedQueue):
            queue.successor = remote

    # Leaders: `queues_elsewhere.Leaders`

    def leader_of(self, name: QueueName) -> BrokerId | None:
        """Return a queue's leader as the metadata image has it; None: it has none."""
        queue = self._queue(name)
        if queue is None:
            return None
        if not queue.durable:
            return self._home_of(*name)
        topic = self._topic_of(name)
        if topic is None or topic.partitions[0].leader == NO_LEADER:
            return None
        return topic.partitions[0].leader

    def _topic_of(self, name: QueueName) -> TopicInfo | None:
        """Return the topic with a queue's messages, or which a stream reads; None: none exists."""
        queue = self._queue(name)
        read = None if queue is None else queue.settings.topic
        return self._broker.image.topics.get(queue_topic(*name) if read is None else read.topic)

    def is_unused(self, name: QueueName) -> bool:
        """Return whether a durable queue was never used: it has no topic, and so no message."""
        queue = self._queue(name)
        reads = queue is not None and queue.settings.topic is not None
        return not reads and not self.topics.exists(name)

    def is_down(self, name: QueueName) -> bool:
        """Return whether the only broker with a durable classic queue's messages is down."""
        queue, image = self._queue(name), self._broker.image
        if queue is None or not queue.durable:
            return False
        topic = image.topics.get(queue_topic(*name))
        if topic is None or queue.settings.queue_type is not QueueType.CLASSIC:
            return False
        partition = topic.partitions[0]
        if len(partition.replicas) > 1:
            return False
        (only,) = partition.replicas
        reachable = any(only == broker.broker_id for broker in image.reachable_brokers())
        return only in partition.offline or not reachable

    def replica(self, name: QueueName) -> Replica | None:
        """Return this broker's replica of a stream, present or later; None: no stream."""
        queue = self._queue(name)
        if queue is None or queue.settings.queue_type is not QueueType.STREAM:
            return None
        return Replica(partial(self._replica_of, name), self._broker.disk, self._windows)

    def _replica_of(self, name: QueueName) -> Partition | None:
        """Return the replica of a stream that may serve consumers: in sync, and not closed."""
        topic, own = self._topic_of(name), self._broker.broker_id
        if topic is None or own not in topic.partitions[0].isr:
            return None
        at = topic.name, 0
        found = self._broker.partitions.get(at) or self._broker.followed.get(at)
        if found is None or found.role.closed or found.topic_id != topic.topic_id:
            return None
        return found

    def use(self, vhost: str, queue: DeclaredQueue) -> None:
        """Have the topic of a durable queue created, unless it exists."""
        if queue.settings.topic is None:
            self.topics.want(vhost, queue)

    def _queue(self, name: QueueName) -> DeclaredQueue | None:
        host = self._virtual_hosts.hosts.get(name.vhost)
        return None if host is None else host.model.queues.get(name.queue)

    def session(self, leader: BrokerId) -> HomeSession | None:
        """Return the session with a leader; None: it is not registered."""
        return self._links.session(leader)

    def _image_changed(self, delta: ImageDelta, structural: bool) -> None:
        """Look for the leaders of queues whose partitions have changed."""
        if delta.brokers is not None:
            epochs = {broker.broker_id: broker.epoch for broker in delta.brokers}
            self.sessions.keep(epochs)
        self.sessions.suspect(self._broker.image.suspects)
        if structural:
            self._links.end_suspected()
        topics = (topic.name for topic in delta.topics)
        for topic in (*delta.removed, *delta.partitions, *topics):
            name = self._name_of(topic) if is_queue_topic(topic) else None
            if name is not None:
                self._elsewhere.look(name)
            elif not is_queue_topic(topic):
                self._look_for_readers(topic)

    def _look_for_readers(self, topic: str) -> None:
        """Look for the leaders of streams that read a Kafka topic.

        Their consumers are cancelled if the topic has got a second partition.
        """
        info = self._broker.image.topics.get(topic)
        for host in self._virtual_hosts.hosts.values():
            for name, read in host.model.router.read_topics.items():
                if read.topic != topic:
                    continue
                self._elsewhere.look(QueueName(host.name, name))
                if info is not None and len(info.partitions) > 1:
                    self._elsewhere.dismiss(QueueName(host.name, name))

    # The right to lead: `LeadingRights.homes_of`, `QueueLeadership.wait_for_homes`

    def homes_of(self, partition: TopicPartition) -> frozenset[BrokerId]:
        """Return the brokers whose channels may hold deliveries of a led partition's queue."""
        name = self._name_of(partition.topic)
        if name is None:
            return frozenset()
        homes = frozenset(self.sessions.homes_of(*name))
        host = self._virtual_hosts.hosts.get(name.vhost)
        queue = None if host is None else host.queues.get(name.queue)
        if isinstance(queue, HostedQueue) and _is_awaited(queue):
            homes |= {self._broker.broker_id}
        return homes

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


def _is_awaited(queue: HostedQueue) -> bool:
    """Return whether the next leader of a queue has something to learn of channels here."""
    own = (not isinstance(each.channel, RemoteChannel) for each in queue.consumers)
    return any(own) or not queue.is_settled


def _drop_elsewhere(host: QueueHost, name: QueueName) -> None:
    """Remove a queue that another broker leads from those that channels find."""
    removed = host.targets.elsewhere.pop(name.queue, None)
    if removed is not None and host.targets.get(name.queue) is removed:
        del host.targets[name.queue]
