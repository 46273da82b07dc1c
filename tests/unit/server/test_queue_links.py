"""Sessions with queues of another broker over the simulated network, its faults and restarts."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headrace.model.errors import ErrorCode
from headrace.model.nouns import BrokerId
from headrace.ports.callbacks import ignore_result
from headrace.queue_stores.memory.memory_use import MemoryUse
from headrace.queues.engine.hosted_queue import stores_in_memory
from headrace.queues.engine.virtual_hosts import VirtualHosts
from headrace.queues.model.declarations import QueueFlags
from headrace.queues.port import Consumer
from headrace.remote_queues.home.remote_queue import RemoteQueue
from headrace.remote_queues.leader.queue_sessions import QueueSessions
from headrace.server.cluster.queue_links import STILL_SECONDS_MAX, QueueLinks
from headrace.testing.sim.cluster import SimCluster
from headrace.wire.kafka.api import ApiKey
from tests.support.amqp.deliveries import ChannelKit, Delivery
from tests.support.cluster.peer_kit import Asker, cut_off, mend, play, two
from tests.support.queues.port_place import persistent
from tests.support.sim.cluster import until

HOME, LEADER = 0, 1
MANY = 500


class Pair:
    """Two brokers of a cluster: a queue of the second one, and a channel of the first."""

    def __init__(self, cluster: SimCluster) -> None:
        self.cluster = cluster
        self.sent: list[Delivery] = []
        self.cancelled: list[str] = []
        self.told: list[Any] = []
        self.boot_seconds = cluster.brokers[HOME].broker.clock.monotonic
        self.still = 0.0
        self.guards: list[Callable[[], bool]] = []
        self.channel = ChannelKit(
            sent=self.sent.extend,
            cancelled=lambda consumer, _: self.cancelled.append(consumer.tag),
        )
        leader = cluster.brokers[LEADER]
        hosts = VirtualHosts(leader.broker.clock, lambda: bytes(16), stores_in_memory(MemoryUse()))
        self.led = hosts.hosts["/"].declare_queue("q", QueueFlags(durable=False), {}, None)
        self.sessions = QueueSessions(hosts.hosts, hosts.deadlines, hosts.turns.soon)
        assert leader.cluster_links is not None
        leader.cluster_links.service.queue_sessions = self.sessions
        home = cluster.brokers[HOME]
        assert home.cluster_links is not None
        self.links = QueueLinks(
            home.broker,
            home.broker.config.inter_broker_listener_name,
            home._peer_clients().by(home.broker.config.inter_broker_listener_name),
            home.cluster_links.replicating.run,
            lambda: home.controller.applier.broker_epoch,
            self,
            self.guarded,
        )
        self.queue = RemoteQueue("/", self.led.declared, self.led.title, home.broker.clock)
        self.begin()

    def seconds_since_tick(self) -> float:
        """Implement `RunningProcess`."""
        return self.still

    def guarded(self, guard: Callable[[], bool], send: Callable[[], None]) -> None:
        """Note the guard of what is sent."""
        self.guards.append(guard)
        send()

    def begin(self) -> None:
        """Begin a session."""
        session = self.links.session(BrokerId(LEADER))
        assert session is not None
        self.session = session
        self.queue.begin(session)

    def publish(self, *bodies: str) -> None:
        """Publish messages; what is unstored of them is in `told`."""
        for body in bodies:
            self.queue.publish(persistent(body), 0.0)
        self.queue.when_stored(self.told.append)

    def consume(self, tag: str = "c", prefetch: int = 0) -> Consumer:
        """Add a consumer."""
        consumer = Consumer(self.queue, self.channel, tag, prefetch=prefetch)
        self.queue.consume(consumer, 0.0, ignore_result)
        return consumer

    @property
    def bodies(self) -> list[str]:
        """The bodies of all deliveries."""
        return [delivery[2].body.decode() for delivery in self.sent]


def played(story: Callable[[Pair], Awaitable[None]]) -> None:
    """Play with a pair of brokers."""

    async def whole(cluster: SimCluster) -> None:
        await two(cluster)
        pair = Pair(cluster)
        try:
            await story(pair)
        finally:
            pair.links.close()
            pair.sessions.close()

    play(whole)


def test_queue_of_another_broker_is_published_to_and_consumed() -> None:
    async def story(pair: Pair) -> None:
        consumer = pair.consume(prefetch=10)
        numbers = [f"{number}" for number in range(MANY)]
        pair.publish(*numbers)
        for _ in range(MANY // 10):
            await until(lambda: len(pair.channel.held) == 10)
            pair.channel.ack(0, multiple=True)
        await until(lambda: pair.led.unacked == pair.led.ready == 0)
        assert pair.bodies == numbers
        assert [*map(bool, pair.told)] == [False]
        pair.queue.cancel(consumer, 0.0)
        await until(lambda: not pair.led.consumers)

    played(story)


def test_session_goes_on_after_its_connections_are_cut() -> None:
    async def story(pair: Pair) -> None:
        pair.consume(prefetch=1)
        pair.publish("a", "b")
        await until(lambda: pair.bodies == ["a"])
        cut_off(pair.cluster, HOME, LEADER)
        pair.channel.ack(1)
        pair.publish("c")
        await asyncio.sleep(0.4)
        mend(pair.cluster, HOME, LEADER)
        await until(lambda: pair.bodies == ["a", "b"])
        assert not pair.session.ended
        await until(lambda: len(pair.told) == 2)
        assert pair.led.ready == 1

    played(story)


def test_leader_ends_the_session_of_a_home_that_is_silent() -> None:
    async def story(pair: Pair) -> None:
        pair.consume()
        pair.publish("a")
        await until(lambda: pair.bodies == ["a"])
        cut_off(pair.cluster, HOME, LEADER)
        await until(lambda: pair.led.ready == 1)
        assert not pair.led.consumers
        mend(pair.cluster, HOME, LEADER)
        await until(lambda: pair.session.ended)
        assert pair.cancelled == ["c"]
        pair.channel.ack(1)  # without effect
        pair.begin()
        pair.consume("d")
        await until(lambda: pair.bodies == ["a", "a"])
        assert pair.sent[1][3]  # redelivered

    played(story)


def test_events_under_way_to_a_home_that_stood_still_are_not_delivered() -> None:
    async def story(pair: Pair) -> None:
        pair.consume()
        await until(lambda: pair.led.consumers)
        pair.still = STILL_SECONDS_MAX + 0.01  # no tick has run yet
        pair.publish("a")
        await until(lambda: pair.session.ended)
        assert pair.bodies == []
        pair.still = 0.0
        pair.begin()
        pair.consume("d")
        await until(lambda: pair.bodies == ["a"])
        assert pair.sent[0][3]  # redelivered

    played(story)


def test_deliveries_leave_only_while_their_leader_cannot_have_ended_the_session() -> None:
    async def story(pair: Pair) -> None:
        pair.consume()
        pair.publish("a")
        await until(lambda: pair.bodies == ["a"])
        guard = pair.guards[-1]
        assert guard()
        await asyncio.sleep(STILL_SECONDS_MAX)
        assert not guard()

    played(story)


def test_sessions_end_at_the_first_tick_of_a_home_that_stood_still_for_long() -> None:
    async def story(pair: Pair) -> None:
        pair.consume()
        await until(lambda: pair.led.consumers)
        pair.links.stood_still(STILL_SECONDS_MAX)
        assert pair.cancelled == []
        pair.links.stood_still(STILL_SECONDS_MAX + 0.01)
        assert pair.cancelled == ["c"]
        pair.begin()
        pair.consume("d")
        pair.publish("a")
        await until(lambda: pair.bodies == ["a"])

    played(story)


def test_session_ends_with_the_registration_of_the_leader() -> None:
    async def story(pair: Pair) -> None:
        pair.consume()
        pair.publish("a")
        await until(lambda: pair.bodies == ["a"])
        pair.cluster.kill(LEADER)
        pair.publish("b")
        await until(lambda: pair.session.ended)
        assert pair.cancelled == ["c"]
        assert pair.told[-1] == {2}
        assert pair.links.session(BrokerId(LEADER)) is None

    played(story)


@pytest.mark.parametrize("key", [ApiKey.QUEUE_CALLS, ApiKey.QUEUE_EVENTS])
def test_broker_without_queues_refuses_calls_and_polls(key: ApiKey) -> None:
    async def story(cluster: SimCluster) -> None:
        await two(cluster)
        request: dict[str, Any] = {"brokerId": 0, "brokerEpoch": 1, "session": 1}
        request |= {"first": 0, "calls": [], "expected": 0, "again": False, "room": 1}
        request["leaderEpoch"] = -1
        answer = await Asker(cluster, LEADER).ask(key, request)
        assert answer["errorCode"] == ErrorCode.UNSUPPORTED_VERSION

    play(story)


@pytest.mark.parametrize("key", [ApiKey.QUEUE_CALLS, ApiKey.QUEUE_EVENTS])
def test_requests_to_a_former_registration_of_the_leader_are_refused(key: ApiKey) -> None:
    async def story(pair: Pair) -> None:
        await until(lambda: pair.sessions._known)
        server = pair.cluster.brokers[LEADER]
        request: dict[str, Any] = {"brokerId": HOME, "brokerEpoch": 1 << 40, "session": 1}
        request |= {"first": 0, "calls": [], "expected": 0, "again": False, "room": 1}
        request["leaderEpoch"] = server.controller.applier.broker_epoch - 1
        answer = await Asker(pair.cluster, LEADER).ask(key, request)
        assert answer["errorCode"] == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert not pair.session.ended

    played(story)
