"""What tools write into the store, past all brokers, is done by whoever is the controller."""

import asyncio
import json
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from headrace.cluster.store import znodes
from headrace.cluster.topics.creation import NewTopic
from headrace.log.text_files import decode_uuid
from headrace.model.errors import ApiError
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.testing.sim.cluster import SimCluster
from headrace.testing.sim.ensemble import EnsembleSession
from tests.support.sim import cluster as sim_cluster
from tests.support.sim.cluster import dotted, until

ZERO, ONE, TWO = (BrokerId(number) for number in range(3))


def play(
    story: Callable[[SimCluster, EnsembleSession], Coroutine[Any, Any, None]], **settings: str
) -> None:
    """Run `story` with brokers 0, 1 and 2, of which 0 is the controller, and a tool's session."""

    async def with_tool(cluster: SimCluster) -> None:
        await story(cluster, cluster.ensemble.session("tool"))

    sim_cluster.play(with_tool, 0, 1, 2, settings=dotted(settings))


async def settled() -> None:
    await asyncio.sleep(1.0)


async def made(cluster: SimCluster, *replicas: tuple[int, ...]) -> None:
    (topic,) = await cluster.controller().create_topics(
        [NewTopic("t", assignment=dict(enumerate(replicas)))]
    )
    assert not isinstance(topic, ApiError)


def children(cluster: SimCluster, path: str) -> list[str]:
    return cluster.ensemble.tree.children(path)


def request(*partitions: tuple[str, int, list[int] | None]) -> bytes:
    """What old tools write below /admin."""
    named = [
        {"topic": topic, "partition": index} | ({} if replicas is None else {"replicas": replicas})
        for topic, index, replicas in partitions
    ]
    return json.dumps({"version": 1, "partitions": named}).encode()


def test_a_topic_made_in_the_store_has_an_id_leaders_and_logs_and_its_settings() -> None:
    async def story(cluster: SimCluster, tool: EnsembleSession) -> None:
        config = znodes.encode_config({"retention.ms": "7000"})
        await tool.create(znodes.topic_config_path("old"), config)
        node = b'{"version":1,"partitions":{"1":[2,0],"0":[1]}}'
        await tool.create(znodes.topic_path("old"), node)
        await until(lambda: ("old", 1) in cluster.brokers[2].broker.partitions)
        await until(lambda: ("old", 0) in cluster.brokers[1].broker.partitions)
        topic = cluster.brokers[0].broker.image.topics["old"]
        assert [partition.leader for partition in topic.partitions] == [ONE, TWO]
        assert topic.partitions[1].isr == (TWO, ZERO)
        assert topic.config == {"retention.ms": "7000"}
        written = json.loads(cluster.ensemble.tree.get(znodes.topic_path("old")).value)
        assert decode_uuid(written["topic_id"]) == topic.topic_id
        led = cluster.brokers[2].broker.partition("old", 1)
        assert led.log.config.retention_ms == 7000
        assert led.log.topic_id == topic.topic_id
        # It is a topic like any other: it grows and goes.
        await cluster.controller().create_partitions("old", 3)
        assert await cluster.controller().delete_topics(["old"]) == {"old": None}
        assert children(cluster, znodes.TOPICS) == []

    play(story)


def test_a_topic_made_with_a_version_3_node_keeps_its_id() -> None:
    async def story(cluster: SimCluster, tool: EnsembleSession) -> None:
        node = znodes.encode_topic(znodes.TopicNode({0: (ONE,)}, b"x" * 16))
        await tool.create(znodes.topic_path("new"), node)
        await until(lambda: ("new", 0) in cluster.brokers[1].broker.partitions)
        assert cluster.brokers[2].broker.image.topics["new"].topic_id == b"x" * 16
        assert cluster.ensemble.tree.get(znodes.topic_path("new")).value == node

    play(story)


def test_a_topic_that_cannot_be_understood_is_passed_over_and_the_next_taken(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(cluster: SimCluster, tool: EnsembleSession) -> None:
        await tool.create(znodes.topic_path("bad"), b"what?")
        await tool.create(znodes.topic_path("good"), b'{"version":1,"partitions":{"0":[1]}}')
        await until(lambda: ("good", 0) in cluster.brokers[1].broker.partitions)
        line = "topic bad is ignored, mend or delete its node: /brokers/topics/bad"
        assert caplog.text.count(line) == 1
        assert "bad" not in cluster.brokers[0].broker.image.topics

    with caplog.at_level(logging.ERROR):
        play(story)


@pytest.mark.parametrize("part", ["topic", "state", "settings"])
def test_a_broker_becomes_the_controller_though_a_topic_cannot_be_understood(
    part: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(cluster: SimCluster, tool: EnsembleSession) -> None:
        await made(cluster, (1,))
        await tool.create(znodes.topic_path("bad"), b'{"version":1,"partitions":{"0":[1]}}')
        await until(lambda: ("bad", 0) in cluster.brokers[1].broker.partitions)
        path = {
            "topic": znodes.topic_path("bad"),
            "state": znodes.state_path("bad", 0),
            "settings": znodes.topic_config_path("bad"),
        }[part]
        if part == "settings":
            await tool.create(path, b"what?")
        else:
            await tool.set(path, b"what?")
        await cluster.stop(0)
        await until(lambda: any(one.controller.is_controller for one in cluster.brokers.values()))
        assert f"topic bad is ignored, mend or delete its node: {path}" in caplog.text
        heir = cluster.controller()
        assert set(heir.broker.image.topics) >= {"t"}
        (topic,) = await heir.create_topics([NewTopic("u", 1, 1)])
        assert not isinstance(topic, ApiError)
        told = caplog.text.count("topic bad is ignored")
        await settled()
        assert caplog.text.count("topic bad is ignored") == told

    with caplog.at_level(logging.ERROR):
        play(story)


def test_a_topic_on_brokers_that_are_away_is_led_when_one_comes() -> None:
    async def story(cluster: SimCluster, tool: EnsembleSession) -> None:
        await cluster.stop(2)
        await until(lambda: TWO not in cluster.brokers[0].broker.image.brokers)
        await tool.create(znodes.topic_path("old"), b'{"version":1,"partitions":{"0":[2]}}')
        await until(lambda: "old" in cluster.brokers[0].broker.image.topics)
        assert cluster.brokers[0].broker.image.topics["old"].partitions[0].leader == -1
        server = await cluster.start(2)
        await until(lambda: ("old", 0) in server.broker.partitions)

    play(story)


def test_a_deletion_asked_for_in_the_store_is_done_and_one_of_no_topic_is_forgotten() -> None:
    async def story(cluster: SimCluster, tool: EnsembleSession) -> None:
        await made(cluster, (1,), (2,))
        await tool.create(f"{znodes.DELETE_TOPICS}/nope", b"")
        await tool.create(f"{znodes.DELETE_TOPICS}/t", b"")
        await until(lambda: children(cluster, znodes.TOPICS) == [])
        await until(lambda: children(cluster, znodes.DELETE_TOPICS) == [])
        assert children(cluster, znodes.TOPIC_CONFIGS) == []
        for server in cluster.brokers.values():
            assert "t" not in server.broker.image.topics
            assert not list(server.broker.logs())

    play(story)


def test_no_topic_is_deleted_that_way_where_deletion_is_disabled() -> None:
    async def story(cluster: SimCluster, tool: EnsembleSession) -> None:
        await made(cluster, (1,))
        await tool.create(f"{znodes.DELETE_TOPICS}/t", b"")
        await until(lambda: children(cluster, znodes.DELETE_TOPICS) == [])
        assert children(cluster, znodes.TOPICS) == ["t"]
        assert ("t", 0) in cluster.brokers[1].broker.partitions

    play(story, delete_topic_enable="false")


def test_a_deletion_waits_for_a_replica_that_is_away_and_goes_on_when_it_is_back() -> None:
    async def story(cluster: SimCluster, tool: EnsembleSession) -> None:
        await made(cluster, (1,), (2,))
        await cluster.stop(2)
        await until(lambda: TWO not in cluster.brokers[0].broker.image.brokers)
        assert await cluster.controller().delete_topics(["t"]) == {"t": None}
        await settled()
        assert children(cluster, znodes.DELETE_TOPICS) == ["t"]
        assert children(cluster, znodes.TOPICS) == ["t"]
        assert "t" not in cluster.brokers[1].broker.image.topics
        (refused,) = await cluster.controller().create_topics([NewTopic("t", 1, 1)])
        assert isinstance(refused, ApiError)  # not before it is gone
        await cluster.stop(0)  # the next controller goes on with it
        await until(lambda: cluster.brokers[1].controller.is_controller)
        server = await cluster.start(2)
        await until(lambda: children(cluster, znodes.TOPICS) == [])
        assert children(cluster, znodes.DELETE_TOPICS) == []
        assert not [log for log in server.broker.logs() if log.topic_partition.topic == "t"]
        (again,) = await cluster.brokers[1].controller.create_topics([NewTopic("t", 1, 1)])
        assert not isinstance(again, ApiError)

    play(story)


def test_elections_and_moves_asked_for_in_the_store_are_done_and_removed() -> None:
    async def story(cluster: SimCluster, tool: EnsembleSession) -> None:
        await made(cluster, (1, 2), (1, 2))
        image = cluster.brokers[0].broker.image
        topic_id = image.topics["t"].topic_id
        broker = cluster.brokers[2].broker
        config = cluster.brokers[2].controller.settings.log_config("t", {})
        for index in range(2):
            if not broker.has_replica(TopicPartition("t", index)):
                broker.directories[0].create_log(TopicPartition("t", index), topic_id, config)
        moves = request(("t", 0, [2, 1]), ("t", 1, [2, 0]), ("nope", 0, [1]))
        await tool.create(znodes.REASSIGNMENTS, moves)
        await until(lambda: len(image.topics["t"].partitions[1].replicas) == 3)
        assert image.topics["t"].partitions[0].replicas == (TWO, ONE)
        assert image.topics["t"].partitions[0].leader == ONE
        await until(lambda: "reassign_partitions" not in children(cluster, "/admin"))
        await tool.create(znodes.ELECTIONS, request(("t", 0, None), ("t", 7, None)))
        await until(lambda: image.topics["t"].partitions[0].leader == TWO)
        assert image.topics["t"].partitions[1].replicas == (TWO, ZERO)
        await until(lambda: "preferred_replica_election" not in children(cluster, "/admin"))

    play(story)


def test_what_was_asked_for_while_there_was_no_controller_its_successor_does() -> None:
    async def story(cluster: SimCluster, tool: EnsembleSession) -> None:
        await made(cluster, (1, 2))
        worlds = cluster.worlds.values()
        for world in worlds:
            world._sessions[-1].events.lost()
        await tool.create(f"{znodes.DELETE_TOPICS}/nope", b"")
        await tool.create(znodes.REASSIGNMENTS, request(("t", 0, [2, 1])))
        await tool.create(znodes.ELECTIONS, b"not understood")
        await tool.create(znodes.topic_path("old"), b'{"version":1,"partitions":{"0":[1]}}')
        await settled()
        assert children(cluster, znodes.DELETE_TOPICS) == ["nope"]
        for world in worlds:
            world._sessions[-1].events.reconnected()
        await until(lambda: children(cluster, znodes.DELETE_TOPICS) == [])
        await until(lambda: children(cluster, "/admin") == ["delete_topics"])
        await until(lambda: ("old", 0) in cluster.brokers[1].broker.partitions)
        partition = cluster.brokers[1].broker.image.topics["t"].partitions[0]
        assert partition.replicas == (TWO, ONE)

    play(story)


def test_moves_stay_asked_for_in_the_store_until_they_have_ended() -> None:
    async def story(cluster: SimCluster, tool: EnsembleSession) -> None:
        await made(cluster, (1, 2), (1, 0))
        cluster.network.cut("broker-2", "broker-1")  # what is moved to 2 does not arrive
        moves = request(("t", 0, [2, 1]), ("t", 1, [2, 1]), ("nope", 0, [1]))
        await tool.create(znodes.REASSIGNMENTS, moves)
        await until(lambda: cluster.ensemble.tree.get(znodes.REASSIGNMENTS).version == 1)
        left = cluster.ensemble.tree.get(znodes.REASSIGNMENTS).value
        assert json.loads(left)["partitions"] == [
            {"topic": "t", "partition": 1, "replicas": [2, 1]}
        ]
        await cluster.stop(0)  # the next controller knows of it
        await until(lambda: cluster.brokers[1].controller.is_controller
                    or cluster.brokers[2].controller.is_controller)  # fmt: skip
        await settled()
        assert "reassign_partitions" in children(cluster, "/admin")
        cluster.network.mend("broker-2", "broker-1")
        await until(lambda: "reassign_partitions" not in children(cluster, "/admin"))
        held = cluster.brokers[1].broker.image.topics["t"].partitions[1]
        assert held.replicas == (TWO, ONE)

    play(story)


def test_partitions_that_a_tool_adds_to_a_topic_are_led_and_it_keeps_its_id() -> None:
    async def story(cluster: SimCluster, tool: EnsembleSession) -> None:
        await made(cluster, (1, 2))
        topic_id = cluster.brokers[0].broker.image.topics["t"].topic_id
        path = znodes.topic_path("t")
        await tool.set(path, b'{"version":1,"partitions":{"0":[1,2],"1":[2,0]}}')
        await until(lambda: ("t", 1) in cluster.brokers[2].broker.partitions)
        await cluster.stop(0)  # also under the next controller
        await until(lambda: cluster.brokers[1].controller.is_controller
                    or cluster.brokers[2].controller.is_controller)  # fmt: skip
        await settled()
        node = znodes.decode_topic(path, (await tool.get(path)).value)
        assert node.topic_id == topic_id
        grown = node._replace(partitions={**node.partitions, 2: (TWO, ONE)})
        await tool.set(path, znodes.encode_topic(grown))
        await until(lambda: ("t", 2) in cluster.brokers[2].broker.partitions)
        shown = cluster.brokers[1].broker.image.topics["t"]
        assert [partition.leader for partition in shown.partitions] == [ONE, TWO, TWO]
        assert shown.topic_id == topic_id
        await cluster.controller().create_partitions("t", 4)

    play(story)
