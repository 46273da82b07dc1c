"""The controller's way to brokers and theirs to it: cut, mended, slow, gone, or to another one.

Over a simulated network, with whole brokers.
"""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from headrace.broker.metadata_image import ImageDelta
from headrace.client.transport.port import ClientError, TimedOut
from headrace.cluster.decisions.facts import ClusterFacts
from headrace.cluster.decisions.orders import Orders, Stop
from headrace.cluster.peers.order_channels import ANSWER_SECONDS_MAX
from headrace.cluster.store import znodes
from headrace.cluster.topics.creation import NewTopic
from headrace.frontends.kafka.authentication.authorisation import CLUSTER_ACTION
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, LeaderEpoch, TopicPartition
from headrace.replication.controller_calls import AskedIsr, IsrAnswer
from headrace.server.cluster.cluster_links import ClusterLinks
from headrace.testing.sim.cluster import SimCluster
from headrace.testing.sim.ensemble import SESSION_SECONDS
from tests.support.cluster.peer_kit import cut_off, mend, play, started
from tests.support.security.authorisation import Rules
from tests.support.sim.cluster import until

T0 = TopicPartition("t", 0)
ZERO, ONE, TWO = (BrokerId(number) for number in range(3))
A_WAY = 1.0
"""More than any message is under way."""


async def created(cluster: SimCluster, name: str, *replicas: BrokerId) -> Any:
    wanted = NewTopic(name, assignment={0: list(replicas)})
    (outcome,) = await cluster.controller().create_topics([wanted])
    return outcome


def link_of(cluster: SimCluster, number: int) -> Any:
    among = cluster.brokers[number].cluster_links
    assert isinstance(among, ClusterLinks)
    return among.link


def led_by(cluster: SimCluster, number: int) -> set[str]:
    return {name for name, _ in cluster.brokers[number].broker.partitions}


def now() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.parametrize("seed", range(4))
def test_orders_arrive_in_their_sequence_though_connections_break(seed: int) -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1)

        async def breaking() -> None:
            for _ in range(40):
                await asyncio.sleep(0.003)
                cluster.network.break_links("broker-0", "broker-1")

        broken = asyncio.ensure_future(breaking())
        for number in range(8):
            outcome = await created(cluster, f"t{number}", ONE)
            assert not isinstance(outcome, ApiError)
            assert f"t{number}" in led_by(cluster, 1)
        assert await cluster.controller().delete_topics(["t0"]) == {"t0": None}
        await broken
        assert led_by(cluster, 1) == {f"t{number}" for number in range(1, 8)}
        assert set(cluster.brokers[1].broker.image.topics) == led_by(cluster, 1)

    # A connection that breaks while it is made is not heard of again.
    play(story, seed, controller_socket_timeout_ms="500")


def test_a_broker_that_does_not_answer_is_waited_for_once_and_hears_it_all_later() -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1)
        cut_off(cluster, 0, 1)
        began = now()
        first = await created(cluster, "t", ONE)
        assert isinstance(first, ApiError)
        assert first.code is ErrorCode.REQUEST_TIMED_OUT
        assert now() - began < ANSWER_SECONDS_MAX + A_WAY
        began = now()
        assert isinstance(await created(cluster, "u", ONE), ApiError)
        assert not isinstance(await created(cluster, "v", ZERO, ONE), ApiError)
        assert await cluster.controller().delete_topics(["t"]) == {"t": None}
        assert now() - began < A_WAY
        mend(cluster, 0, 1)
        await until(lambda: led_by(cluster, 1) == {"u"})
        await until(lambda: set(cluster.brokers[1].broker.image.topics) == {"u", "v"})
        assert not isinstance(await created(cluster, "w", ONE), ApiError)

    play(story)


def test_a_broker_that_takes_no_orders_is_sent_them_until_it_does(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1)
        broker = cluster.brokers[1].broker
        everybody, broker.authorizer = broker.authorizer, Rules(CLUSTER_ACTION)
        assert isinstance(await created(cluster, "t", ONE), ApiError)
        await asyncio.sleep(60)
        broker.authorizer = everybody
        await until(lambda: led_by(cluster, 1) == {"t"})
        told = "broker 1 refuses the controller's orders: CLUSTER_AUTHORIZATION_FAILED. Retrying"
        assert caplog.text.count(told) == 1

    play(story)


def test_what_a_broker_cannot_do_is_acted_upon_however_late_it_says_so() -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1)
        await created(cluster, "t", ZERO, ONE)
        cut_off(cluster, 0, 1)
        # Broker 1 is to lead what it has no log of any more.
        cluster.brokers[1].broker.stop_partition("t", 0, delete=True)
        await link_of(cluster, 0)._hand_over_once()
        image = cluster.brokers[0].broker.image
        assert image.topics["t"].partitions[0].leader == ONE
        mend(cluster, 0, 1)
        await until(lambda: image.topics["t"].partitions[0].leader == -1)
        assert image.topics["t"].partitions[0].isr == (ONE,)

    play(story)


def test_a_topic_is_forgotten_once_the_last_broker_has_dropped_it_however_late() -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1)
        await created(cluster, "t", ONE)
        cut_off(cluster, 0, 1)
        await cluster.controller().delete_topics(["t"])
        store: Any = cluster.controller()._store
        assert await store.children(znodes.DELETE_TOPICS) == ["t"]
        assert list(cluster.brokers[1].broker.logs())
        mend(cluster, 0, 1)
        await until(lambda: not list(cluster.brokers[1].broker.logs()))
        await asyncio.sleep(A_WAY)
        assert await store.children(znodes.DELETE_TOPICS) == []
        assert await store.children(znodes.TOPICS) == []

    play(story)


def test_a_broker_that_has_gone_is_not_waited_for() -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1)
        began = now()
        power = asyncio.ensure_future(cluster.cut_power(1))
        await asyncio.sleep(SESSION_SECONDS - 1)
        outcome = await created(cluster, "t", ONE)
        assert isinstance(outcome, ApiError)
        assert outcome.code is ErrorCode.BROKER_NOT_AVAILABLE
        assert now() - began < SESSION_SECONDS + A_WAY
        await power
        await cluster.start(1)
        await until(lambda: "t" in cluster.brokers[1].broker.image.topics)

    play(story)


@pytest.mark.parametrize("seed", range(3))
def test_another_controller_is_found_by_those_who_ask(seed: int) -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1, 2)
        await created(cluster, "t", TWO)

        async def epoch_after(epoch: int) -> int:
            asked = AskedIsr(T0, LeaderEpoch(0), epoch, (TWO,))
            answer: IsrAnswer | ErrorCode = ErrorCode.NOT_CONTROLLER
            while not isinstance(answer, IsrAnswer):
                with suppress(ApiError, ClientError):  # it is asked once: who asks asks again
                    answer = (await link_of(cluster, 2).alter_partitions([asked]))[T0]
                await asyncio.sleep(0.1)
            assert answer[:3] == (TWO, 0, (TWO,))
            return answer.partition_epoch

        epoch = await epoch_after(0)
        power = asyncio.ensure_future(cluster.cut_power(0))
        await asyncio.sleep(0.5)
        await epoch_after(epoch)
        assert int(cluster.controller().broker.broker_id) in {1, 2}
        made = await cluster.brokers[1].controller.auto_create(["u"])
        assert made == {"u": None}
        await power
        await started(cluster, 0)
        for server in cluster.brokers.values():
            assert set(server.broker.image.topics) == {"t", "u"}

    play(story, seed, auto_create_topics_enable="true")


def test_an_isr_is_asked_for_once_however_that_ends() -> None:
    """A second question, answered, would hide that the first may be carried out yet."""

    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1)
        await created(cluster, "t", ONE, ZERO)
        link: Any = link_of(cluster, 1)
        times = []

        async def lost(call: object) -> None:
            times.append(call)
            raise TimedOut("no answer came")

        link._channel.ask_once = lost
        with pytest.raises(TimedOut):
            await link.alter_partitions([AskedIsr(T0, LeaderEpoch(0), 0, (ONE,))])
        assert len(times) == 1

    play(story)


def test_each_registration_of_a_broker_and_each_term_of_a_controller_has_its_own_way() -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1)
        term: Any = cluster.controller()._term
        channels: Any = cluster.controller()._peers
        facts = term.facts
        way = channels(ONE, facts)
        assert channels(ONE, facts) is way
        assert channels(TWO, facts) is None
        facts.brokers = {**facts.brokers, ONE: facts.brokers[ONE]._replace(epoch=1 << 40)}
        later = channels(ONE, facts)
        assert later is not way
        other = ClusterFacts()
        other.brokers = facts.brokers
        assert channels(ONE, other) is not later
        for former in (way, later):
            with pytest.raises(ApiError, match="BROKER_NOT_AVAILABLE"):
                await former.take(Orders(1, -1))

    play(story)


def test_isrs_are_changed_by_the_controller_for_itself_and_for_others_alike() -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1, 2)
        await created(cluster, "t", ZERO, TWO)
        await created(cluster, "u", ONE, TWO)
        for number in (0, 1):
            cut_off(cluster, number, 2)
        began = now()
        for number, name in ((0, "t"), (1, "u")):
            leader = BrokerId(number)
            key, other = TopicPartition(name, 0), TopicPartition(name, 7)
            asked = [
                AskedIsr(key, LeaderEpoch(0), 0, (leader,)),
                AskedIsr(other, LeaderEpoch(0), 0, (leader,)),
            ]
            assert await link_of(cluster, number).alter_partitions(asked) == {
                key: IsrAnswer(leader, LeaderEpoch(0), (leader,), 1),
                other: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            }
        assert now() - began < A_WAY / 2  # nobody waits for broker 2 to show it
        await asyncio.sleep(A_WAY)
        for leader, name in ((ZERO, "t"), (ONE, "u")):
            for number in (0, 1):
                (partition,) = cluster.brokers[number].broker.image.topics[name].partitions
                assert partition.isr == (leader,)
        for number in (0, 1):
            mend(cluster, number, 2)

    play(story)


def test_no_broker_is_given_a_producer_id_that_another_has_had() -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1)
        given = [
            await cluster.brokers[number % 2].controller.next_producer_id()
            for number in range(2 * 2500)
        ]
        assert len(set(given)) == len(given)
        node = await cluster.controller()._store.get(znodes.PRODUCER_ID_BLOCK)
        assert znodes.decode_producer_ids(node.value).last == 5999

    play(story)


def test_a_broker_that_is_not_to_hand_over_stops_as_it_is() -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1, 2)
        await created(cluster, "t", ONE, TWO)
        image = cluster.brokers[0].broker.image
        await cluster.stop(1)
        assert image.topics["t"].partitions[0].leader == ONE
        await until(lambda: image.topics["t"].partitions[0].leader == TWO)

    play(story, controlled_shutdown_enable="false")


def test_the_controller_is_asked_so_often_and_then_the_broker_stops_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1)
        await created(cluster, "t", ONE, ZERO)
        alone = AskedIsr(T0, LeaderEpoch(0), 0, (ONE,))
        await link_of(cluster, 1).alter_partitions([alone])
        began = now()
        await cluster.stop(1)
        assert 2 * 7 < now() - began < 2 * 7 + 3 * A_WAY
        assert "this broker stops while it leads t-0: no other in-sync replica" in caplog.text

    play(story, controlled_shutdown_retry_backoff_ms="7000")


def test_brokers_that_all_stop_wait_for_nobody_to_lead_what_they_led(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1, 2)
        for number, replicas in enumerate(((ZERO, ONE), (ONE, TWO), (TWO, ZERO))):
            await created(cluster, f"t{number}", *replicas)
        began = now()
        await cluster.stop(2)
        await cluster.stop(0)
        await cluster.stop(1)
        assert now() - began < 7
        assert "controlled shutdown is incomplete" not in caplog.text

    play(story, controlled_shutdown_retry_backoff_ms="7000")


def test_the_controller_hands_over_what_it_leads_and_then_the_cluster() -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1)
        await created(cluster, "t", ZERO, ONE)
        await cluster.stop(0)
        heir = cluster.brokers[1]
        await until(lambda: heir.controller.is_controller)
        assert heir.broker.partition("t", 0).leader_epoch == 1

    play(story)


def test_orders_of_a_controller_that_has_been_replaced_are_refused_over_the_network_too() -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1)
        former = cluster.controller()
        term: Any = former._term
        former._term = None
        other = cluster.brokers[1].controller.applier
        other.controller_epoch += 1
        way: Any = former._peers(ONE, term.facts)
        stop = Stop(T0, bytes(16), LeaderEpoch(0), True)
        for orders in (
            Orders(term.facts.controller_epoch, other.broker_epoch, [stop]),
            Orders(term.facts.controller_epoch, other.broker_epoch, delta=ImageDelta(brokers=())),
        ):
            with pytest.raises(ApiError, match="STALE_CONTROLLER_EPOCH"):
                await way.take(orders)

    play(story)


def test_a_controller_without_touch_to_the_store_orders_and_answers_nothing_more() -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1)
        former = cluster.controller()
        cut_off(cluster, 0, 1)
        creating = []
        for name in "tu":
            creating.append(asyncio.ensure_future(created(cluster, name, ONE)))
            await asyncio.sleep(A_WAY)
        former._resign()  # as it does when the store is not heard of
        for outcome in await asyncio.gather(*creating):
            assert isinstance(outcome, ApiError)
        mend(cluster, 0, 1)
        await asyncio.sleep(A_WAY)
        assert "u" not in led_by(cluster, 1)  # t's order may be under way already
        with pytest.raises(ApiError, match="NOT_CONTROLLER"):
            await former.in_term(lambda term: term.shut_down(ONE, -1))

    play(story)
