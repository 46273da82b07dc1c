"""`QueueCluster`: a broker's part in the queues of a cluster (ADRs 76 to 79).

Each broker with the listener of a protocol that has queues makes one. It follows the declarations
of all vhosts, leads queues for all brokers, and uses the queues that others lead.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from headrace.client.transport.peer_clients import PeerClients
from headrace.cluster.controller.controller import Controller
from headrace.cluster.controller.producer_id_source import ProducerIdSource
from headrace.cluster.peers.conversation import Run
from headrace.cluster.peers.peer_service import PeerService
from headrace.cluster.peers.queue_topic_calls import Outcomes, QueueTopicChanges
from headrace.config.log_config import LogConfig
from headrace.model.errors import ApiError, ErrorCode
from headrace.posix.awaiting import called_back
from headrace.queues.engine.hosted_queue import HostedQueue
from headrace.queues.engine.virtual_hosts import VirtualHosts
from headrace.queues.model.declarations import DeclaredQueue
from headrace.queues.queue_names import DECLARATIONS_TOPIC
from headrace.remote_queues.home.replies_elsewhere import RepliesElsewhere
from headrace.remote_queues.leader.leader_session import DeliverReply
from headrace.server.cluster import queue_figures
from headrace.server.cluster.cluster_queues import ClusterQueues
from headrace.server.cluster.declaration_links import DeclarationLinks
from headrace.server.cluster.lease_pings import LeasePings
from headrace.server.cluster.links.alarm_links import AlarmLinks, alarm_of
from headrace.server.cluster.links.produce_links import ProduceLinks
from headrace.server.cluster.queue_leadership import QueueLeadership
from headrace.server.cluster.queue_links import QueueLinks
from headrace.server.cluster.settled_copies import SettledCopies
from headrace.vhosts.declarations.cluster_declarations import ClusterDeclarations, Links
from headrace.vhosts.declarations.coordinator import AccessOf
from headrace.vhosts.declarations.takeover import DeclarationNodes
from headrace.vhosts.led_queues import LedQueues
from headrace.vhosts.policies.visits import PolicyVisits
from headrace.vhosts.queue_topics import QueueTopics
from headrace.vhosts.remote_partitions import RemotePartitions
from headrace.vhosts.replicated_topics import ReplicatedTopics, TopicLinks
from headrace.vhosts.shared_alarms import SharedAlarms

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

SETTLE_SECONDS_MAX = 1.0
"""Seconds for which a clean stop waits for the replicas of settled positions."""


class QueueCluster:
    """The links of one broker. Implements `frontends.amqp.frontend.QueueCluster`."""

    declarations: ClusterDeclarations
    """The declarations of all vhosts, from `follow` on."""
    policy_visits: PolicyVisits
    """The visits of queues and exchanges after changes of policies, from `serve` on."""
    queues: ClusterQueues
    """The queues that this broker leads for others, or uses of others, from `serve` on."""

    def __init__(
        self,
        controller: Controller,
        service: PeerService,
        clients: PeerClients,
        run: Run,
        settled_copies: Callable[[], SettledCopies],
        leadership: QueueLeadership,
        pings: LeasePings,
        change_topics: Callable[[QueueTopicChanges], Awaitable[Outcomes]],
    ) -> None:
        """Create without declarations and queues.

        `service` passes other brokers' requests on; `run` starts a task on the event loop;
        `pings` tells for how long this process stood still.
        `change_topics` has the controller change topics of queues.
        """
        self._change_topics = change_topics
        self.queue_leadership = leadership
        self._pings = pings
        self._broker: Broker = controller.broker
        self._controller = controller
        self._service = service
        self._clients = clients
        self._run = run
        self._copies = settled_copies
        self._listener = controller.broker.config.inter_broker_listener_name
        self._declaration_links: DeclarationLinks | None = None
        self._led: LedQueues | None = None
        self._hosts: VirtualHosts
        self._produce_links: ProduceLinks | None = None
        self._topics_elsewhere: RemotePartitions | None = None
        self._alarm_links: AlarmLinks | None = None
        self._alarms: SharedAlarms | None = None

    @property
    def settled_copies(self) -> SettledCopies:
        """The files of queues' settled positions, and their copies."""
        return self._copies()

    def follow(
        self, topics: QueueTopics, access: AccessOf, nodes: DeclarationNodes
    ) -> ClusterDeclarations:
        """Return the declarations of all vhosts; call it once, before the broker joins.

        `topics` makes the stores of queues. `access` returns a client's permissions in a vhost.
        `nodes`: declarations of earlier versions, which are taken over.
        """
        broker, applier = self._broker, self._controller.applier
        links = self._declaration_links = DeclarationLinks(
            broker, self._listener, self._clients, self._run
        )
        self.declarations = ClusterDeclarations(
            broker,
            Links(
                links.ask,
                links.poll,
                lambda: applier.broker_epoch,
                lambda: applier.knows_cluster,
                lambda: self._controller.ensure_internal_topic(DECLARATIONS_TOPIC),
                self._change_topics,
                self._run,
            ),
            access,
            topics,
        )
        self.declarations.take_over(nodes)
        self._service.followed_declarations = self.declarations
        return self.declarations

    def serve(self, virtual_hosts: VirtualHosts, topics: QueueTopics, visits: PolicyVisits) -> None:
        """Run the queues of the vhosts that have the declarations, here or on other brokers."""
        broker, applier, self._hosts = self._broker, self._controller.applier, virtual_hosts
        new_producer_id = ProducerIdSource(broker.producer_ids, self._controller).new_producer_id
        self._led = LedQueues(broker, self.declarations, virtual_hosts)
        links = QueueLinks(
            broker, self._listener, self._clients, self._run, lambda: applier.broker_epoch,
            self._pings, virtual_hosts.turns.guarded,
        )  # fmt: skip
        self._pings.stood_still.append(links.stood_still)
        self.queues = queues = ClusterQueues(
            broker,
            virtual_hosts,
            links,
            self._led,
            topics.logs,
            self.declarations.home_of,
            new_producer_id,
            ReplicatedTopics(
                broker, TopicLinks(self._change_topics, self.declarations.planned, self._run)
            ),
        )
        self.policy_visits = visits
        tables = self.declarations.tables
        tables.changed += (visits.changed, queues.changed)
        tables.visited = visits.when_visited
        visits.queue_changed.append(queues.queue_changed)
        self._led.is_ready = lambda vhost: (
            tables.has_loaded(vhost) and not visits.is_visiting(vhost)
        )
        tables.loaded = visits.ended = self._led.look_again
        self._service.queue_sessions = queues.sessions
        queue_figures.register(broker, queues)
        virtual_hosts.turns.leadership = self.queue_leadership
        self.queue_leadership.pause = virtual_hosts.turns.pause
        self.queue_leadership.wait_for_homes = queues.wait_for_homes
        if applier.rights is not None:
            applier.rights.homes_of = queues.homes_of
        self._led.begin()
        produced = self._produce_links = ProduceLinks(
            broker, self._listener, self._clients, self._run
        )
        self._topics_elsewhere = topics.of_exchanges.elsewhere = RemotePartitions(
            broker, self._topic_config, new_producer_id, produced.produce
        )

    def _topic_config(self, topic: str) -> LogConfig:
        """Return the present settings of a topic. ApiError: it does not exist."""
        info = self._broker.image.topics.get(topic)
        if info is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return self._controller.settings.log_config(topic, info.config)

    def use(self, vhost: str, queue: DeclaredQueue) -> None:
        """Have the topic of a durable queue created, unless it exists; call it after `serve`."""
        self.queues.use(vhost, queue)

    def share_alarms(self, block: Callable[[str | None], None]) -> Callable[[frozenset[str]], None]:
        """Block publishers by the alarms of all brokers; return the function that takes ours.

        `block` is called with the reason that publishers are sent; None: they may go on.
        """
        applier = self._controller.applier
        links = self._alarm_links = AlarmLinks(
            self._broker, self._listener, self._clients, self._run
        )
        alarms = self._alarms = SharedAlarms(
            self._broker, lambda: applier.broker_epoch, links.send, block
        )
        self._service.on_alarm = lambda request: alarms.noted(*alarm_of(request))
        return alarms.changed

    def share_replies(self, deliver: DeliverReply) -> RepliesElsewhere:
        """Return the direct replies to channels of other brokers; call it after `serve`.

        `deliver` takes those for channels of this broker.
        """
        self.queues.sessions.deliver_reply = deliver
        return RepliesElsewhere(self._broker.broker_id, self.queues.session)

    def start(self) -> None:
        """Begin to follow: the broker has joined the cluster."""
        self.declarations.start()

    async def settle(self) -> None:
        """Wait until all settlements so far are on all replicas, `SETTLE_SECONDS_MAX` at most.

        This broker is about to hand its queues over: their next leaders redeliver none of these.
        """
        led = [queue for queue in self._hosts.queues() if isinstance(queue, HostedQueue)]
        with suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_SECONDS_MAX):
                await asyncio.gather(*(called_back(partial(_settled, queue)) for queue in led))

    def stop_leading(self) -> None:
        """Follow changes of leaders no longer: the queues' stores are closed next."""
        if self._led is not None:
            self._led.close()
            self._led = None

    def close(self) -> None:
        """End all sessions, commands and polls: the broker stops."""
        if self._declaration_links is None:
            return
        self.stop_leading()
        self.queues.close()
        self.declarations.close()
        self._declaration_links.close()
        if self._topics_elsewhere is not None and self._produce_links is not None:
            self._topics_elsewhere.close()
            self._produce_links.close()
        if self._alarms is not None and self._alarm_links is not None:
            self._alarms.close()
            self._alarm_links.close()


def _settled(queue: HostedQueue, done: Callable[[None], None]) -> None:
    queue.when_settled((), lambda: done(None))
