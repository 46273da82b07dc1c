"""What admins ask of a cluster of several brokers, by the client, over the simulated network."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from headrace.client.admin import replicas
from headrace.client.admin.replica_throttles import (
    REPLICAS,
    Move,
    end_throttles,
    moves_of,
    throttle,
)
from headrace.client.admin.replicas import PREFERRED, UNCLEAN, Reassigning
from headrace.client.admin.topics import create_partitions
from headrace.client.calls.metadata import Metadata
from headrace.client.client import Client
from headrace.client.cluster_health import health_of, rows_of
from headrace.client.move_progress import of_moves
from headrace.client.producer.producer import Producer
from headrace.client.standing import look
from headrace.cluster.topics.creation import NewTopic
from headrace.config.value_types import LONG_MAX
from headrace.model.errors import ApiError
from headrace.model.nouns import TopicPartition
from headrace.testing.sim.cluster import SimCluster
from tests.support.sim import cluster as sim_cluster
from tests.support.sim.cluster import until

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def play(story: Callable[[SimCluster, Client], Coroutine[Any, Any, None]]) -> None:
    """Run `story` with brokers 1, 2 and 3, of which 1 is the controller, and topic `t` on 1 and 2.

    The client knows of 3 first: it has to look for the controller.
    """

    async def with_client(cluster: SimCluster) -> None:
        wanted = NewTopic("t", assignment={0: (1, 2), 1: (2, 1)})
        (made,) = await cluster.controller().create_topics([wanted])
        assert not isinstance(made, ApiError)
        client = cluster.client("admin")
        client.bootstrap.reverse()
        await story(cluster, client)
        client.close()

    sim_cluster.play(with_client, 1, 2, 3)


async def seen(client: Client, holds: Callable[[Metadata], object]) -> Metadata:
    """Wait for what any broker shows."""
    for _ in range(2000):
        known = await client.metadata()
        if holds(known):
            return known
        await asyncio.sleep(0.01)
    raise AssertionError("it never is")


def test_moves_are_begun_listed_and_called_off_by_the_controller_whoever_is_asked_first(
    nothing_is_fetched: None,
) -> None:
    async def story(cluster: SimCluster, client: Client) -> None:
        asked = {T0: (1, 3), T1: (2, 2), TopicPartition("t", 9): (1,)}
        outcome = await replicas.reassign(client, asked)
        assert outcome[T0] is None
        assert "INVALID_REPLICA_ASSIGNMENT" in str(outcome[T1])
        assert "UNKNOWN_TOPIC_OR_PARTITION" in str(outcome[TopicPartition("t", 9)])
        moving = await replicas.reassignments(client)
        assert moving == [Reassigning(T0, (1, 3, 2), (3,), (2,))]
        known = await seen(client, lambda known: len(known.topics["t"].partitions[0].replicas) == 3)
        rows = rows_of(known, ["t"], {})
        assert [row.is_under_replicated for row in rows] == [True, False]
        assert (await replicas.reassign(client, {T0: None})) == {T0: None}
        assert await replicas.reassignments(client) == []

    play(story)


def test_elections_are_done_by_the_controller_and_only_those_needed_are_told() -> None:
    async def story(cluster: SimCluster, client: Client) -> None:
        assert await replicas.elect_leaders(client, PREFERRED, None) == {}
        await replicas.reassign(client, {T0: (2, 1)})
        outcome = await replicas.elect_leaders(client, UNCLEAN, [T0, T1])
        assert ["ELECTION_NOT_NEEDED" in str(error) for error in outcome.values()] == [True, True]
        # It may have heard of a controller that is none any more, and asks anew.
        client.known = (await client.metadata())._replace(controller_id=3)
        outcome = await replicas.elect_leaders(client, PREFERRED, None)
        assert list(outcome) == [T0]  # whether or not broker 2 has its log yet
        assert "NOT_CONTROLLER" not in str(outcome[T0])

    play(story)


def test_each_broker_tells_what_lies_on_it() -> None:
    async def story(cluster: SimCluster, client: Client) -> None:
        await create_partitions(client, "t", 3)
        led = {
            broker: [key for key, log in (await replicas.log_dirs(client, broker)).items() if key]
            for broker in (1, 2)
        }
        assert T0 in led[1]
        assert T1 in led[2]
        found = await replicas.log_dirs(client, 1)
        assert found[T0].lag == 0
        with pytest.raises(ApiError):
            await replicas.log_dirs(client, 9)

    play(story)


def test_a_move_tells_how_far_its_copies_are(nothing_is_fetched: None) -> None:
    async def story(cluster: SimCluster, client: Client) -> None:
        producer = Producer(client, acks=1)
        for _ in range(7):
            await producer.send("t", b"x", partition=0, timestamp=1)
        await producer.flush()
        assert await of_moves(client, []) == {}
        await replicas.reassign(client, {T0: (1, 3)})
        moving = await replicas.reassignments(client)
        image = cluster.brokers[1].broker.image
        await until(lambda: 3 in image.topics["t"].partitions[0].replicas)
        await until(lambda: ("t", 0) in cluster.brokers[3].broker.followed)
        ((copy,),) = (await of_moves(client, moving)).values()
        assert (copy.broker, copy.lag, copy.bytes, copy.percent) == (3, 7, 0, 0)
        assert copy.leader_bytes
        await cluster.stop(3)
        ((copy,),) = (await of_moves(client, moving)).values()
        assert (copy.lag, copy.percent) == (None, None), "its broker is away"

    play(story)


def test_a_cluster_that_misses_a_broker_is_not_healthy_and_says_what_is_wrong() -> None:
    async def story(cluster: SimCluster, client: Client) -> None:
        health = health_of(await look(client))
        assert health.is_healthy
        assert (health.brokers, health.topics, health.partitions, health.replicas) == (3, 1, 2, 4)
        await cluster.stop(2)
        known = await seen(client, lambda known: len(known.brokers) == 2)
        known = await seen(client, lambda known: len(known.topics["t"].partitions[0].isr) == 1)
        health = health_of(await look(client))
        assert not health.is_healthy
        assert health.missing == [2]
        assert health.under_replicated >= 1
        rows = rows_of(known, ["t"], {1: await replicas.log_dirs(client, 1)})
        assert rows[0].status == "under-replicated"
        assert rows[0].lags == {1: 0, 2: None}
        assert rows[0].as_json()["under_replicated"] is True

    play(story)


def test_a_throttle_names_whence_and_whither_and_each_broker_has_its_rate(
    nothing_is_fetched: None,
) -> None:
    async def story(cluster: SimCluster, client: Client) -> None:
        known = await client.metadata()
        running = [Reassigning(T1, (2, 1, 3), (3,), (1,))]
        moves = moves_of(known, {T0: (3, 2)}, running)
        assert moves == [Move(T0, frozenset({1, 2}), frozenset({2, 3})),
                         Move(T1, frozenset({1, 2}), frozenset({3}))]  # fmt: skip
        assert await throttle(client, moves, 7000) == [1, 2, 3]
        images = [server.broker.image for server in cluster.brokers.values()]
        named = dict(zip(REPLICAS, ("0:1,0:2,1:1,1:2", "0:3,1:3"), strict=True))
        await until(lambda: all(image.topics["t"].config == named for image in images))
        throttles = {number: server.broker.throttles for number, server in cluster.brokers.items()}
        assert {(found.leader.bound, found.follower.bound) for found in throttles.values()} == {
            (7000,) * 2
        }
        assert [throttles[number].leader.throttles("t", 0) for number in (1, 2, 3)] == [1, 1, 0]
        assert [throttles[number].follower.throttles("t", 1) for number in (1, 2, 3)] == [0, 0, 1]
        assert await end_throttles(client, ["t"], [1, 2, 3]) == (["t"], [1, 2, 3])
        await until(lambda: not any(image.topics["t"].config for image in images))
        assert {found.follower.bound for found in throttles.values()} == {LONG_MAX}
        assert await end_throttles(client, ["t"], [1, 2, 3]) == ([], [])

    play(story)
