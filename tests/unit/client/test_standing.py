"""A cluster as all of its brokers report it, over the simulated network."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from headrace.client.admin import replicas
from headrace.client.client import Client
from headrace.client.cluster_health import rows_of
from headrace.client.producer.producer import Producer
from headrace.client.standing import ANSWER_SECONDS_MAX, Seen, look, replica_ends
from headrace.client.transport.port import Address
from headrace.cluster.topics.creation import NewTopic
from headrace.model.errors import ApiError
from headrace.model.nouns import TopicPartition
from headrace.terminal.health_reasons import reasons_of
from headrace.testing.sim.cluster import SimCluster
from headrace.testing.sim.ensemble import SESSION_SECONDS
from tests.support.cluster.peer_kit import cut_off, mend
from tests.support.sim import cluster as sim_cluster
from tests.support.sim.cluster import until

T0 = TopicPartition("t", 0)


def play(story: Callable[[SimCluster, Client], Coroutine[Any, Any, None]]) -> None:
    """Run `story` with brokers 1, 2 and 3, of which 1 is the controller, and topic `t` on all.

    The client knows of broker 3 first.
    """

    async def with_client(cluster: SimCluster) -> None:
        wanted = NewTopic("t", assignment={0: (1, 2, 3)}, config={"min.insync.replicas": "3"})
        (made,) = await cluster.controller().create_topics([wanted])
        assert not isinstance(made, ApiError)
        client = cluster.client("admin")
        client.bootstrap.reverse()
        await story(cluster, client)
        client.close()

    sim_cluster.play(with_client, 1, 2, 3)


def lose_store(cluster: SimCluster, number: int) -> None:
    """Have the store not answer a broker, which notices it."""
    (session,) = cluster.worlds[number]._sessions
    cluster.ensemble.cut_off(session)


def codes(seen: Seen) -> list[str]:
    return [reason.code for reason in reasons_of(seen)]


def test_a_healthy_cluster_has_one_controller_and_no_reason() -> None:
    async def story(cluster: SimCluster, client: Client) -> None:
        seen = await look(client)
        assert [standing.moves for standing in seen.standings] == [[], None, None]
        assert seen.standings[1].refusal == "broker 1 is the controller, not broker 2"
        assert (codes(seen), seen.known.controller_id) == ([], 1)

    play(story)


def test_health_names_the_store_s_outage_and_no_controller() -> None:
    async def story(cluster: SimCluster, client: Client) -> None:
        for number in cluster.worlds:
            lose_store(cluster, number)
        await asyncio.sleep(2 * SESSION_SECONDS)
        seen = await look(client)
        assert seen.known.controller_id == -1
        no_controller, outage = reasons_of(seen)
        assert no_controller.code == "no_controller"
        assert outage.message.startswith("ZooKeeper has not answered broker 1 since ")
        assert "(12 s), nor brokers 2, 3: check" in outage.message
        for world in cluster.worlds.values():
            world.regain_touch()
        await asyncio.sleep(1)
        seen = await look(client)
        assert codes(seen) == []
        assert seen.known.controller_id in {1, 2, 3}

    play(story)


@pytest.mark.parametrize("number", [1, 3], ids=["the controller", "the broker asked first"])
def test_health_is_the_others_view_where_one_broker_has_lost_the_store(number: int) -> None:
    async def story(cluster: SimCluster, client: Client) -> None:
        client.bootstrap = [Address(cluster.worlds[number].name, 9092)]
        lose_store(cluster, number)
        await asyncio.sleep(2 * SESSION_SECONDS)
        seen = await look(client)
        assert [standing.broker for standing in seen.without_store] == [number]
        assert seen.known.controller_id in {1, 2, 3} - {number}
        assert number not in seen.known.brokers, "as the controller has it"
        assert "brokers_missing" in codes(seen)

    play(story)


def test_a_broker_that_stands_still_is_named_and_not_waited_for_long() -> None:
    async def story(cluster: SimCluster, client: Client) -> None:
        client.request_timeout_seconds = 30.0
        await client.metadata()
        cluster.worlds[2].pause()
        began = asyncio.get_running_loop().time()
        seen = await look(client)
        took = asyncio.get_running_loop().time() - began
        assert took < 4 * ANSWER_SECONDS_MAX
        assert [standing.broker for standing in seen.unanswered] == [2]
        assert "brokers_unanswered" in codes(seen)
        assert client.request_timeout_seconds == 30.0
        cluster.worlds[2].resume()

    play(story)


def test_partitions_below_min_insync_replicas_are_found() -> None:
    async def story(cluster: SimCluster, client: Client) -> None:
        await cluster.stop(2)
        image = cluster.brokers[1].broker.image
        await until(lambda: len(image.topics["t"].partitions[0].isr) == 2)
        await until(lambda: 2 not in image.brokers)
        seen = await look(client)
        assert seen.in_sync_needed == {"t": 3}
        (refusing,) = [found for found in reasons_of(seen) if found.code == "under_min_isr"]
        text = "1 partition refuses acks=all (2 in sync, min.insync.replicas=3): t-0"
        assert refusing.message == text

    play(story)


def test_the_end_of_a_replica_is_the_replica_s_own() -> None:
    async def story(cluster: SimCluster, client: Client) -> None:
        leader = cluster.brokers[1].broker.partitions["t", 0]
        await until(lambda: len(leader.role.term.in_sync) == 3 if leader.role.term else False)
        cut_off(cluster, 1, 2)
        producer = Producer(client, acks=1, idempotent=False)
        await producer.send("t", None, b"x", partition=0, timestamp=1)
        await producer.flush()
        end = leader.log.end_offset
        ends = [await replicas.ends_on(client, broker, [T0]) for broker in (1, 2)]
        assert ends == [{T0: end}, {T0: end - 1}]
        seen = await look(client)
        found = await replica_ends(client, seen.known, ["t"])
        (row,) = rows_of(seen.known, ["t"], {}, found)
        assert row.lags == {1: 0, 2: 1, 3: 0}
        mend(cluster, 1, 2)

    play(story)
