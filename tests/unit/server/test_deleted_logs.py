"""Queues that are deleted while a broker with a replica is down, and declared again."""

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from headrace.cluster.decisions.events import BrokerSuspected
from headrace.cluster.store.znodes import DELETED_REPLICAS
from headrace.model.nouns import BrokerId
from headrace.ports.store import NoNode, Store
from headrace.queues.queue_names import queue_topic
from headrace.server.cluster import deleted_logs
from headrace.testing.sim.cluster import SimCluster
from tests.support.cluster.peer_kit import cut_off, mend
from tests.support.cluster.queue_home import Home, played
from tests.support.queues.port_place import persistent
from tests.support.sim.cluster import until

if TYPE_CHECKING:
    from headrace.wire.amqp.field_table import FieldTable

DOWN = 2
QUORUM: "FieldTable" = {"x-queue-type": "quorum"}
TOPIC = queue_topic("/", "q")


def ids(cluster: SimCluster, number: int) -> list[bytes]:
    """Return the topic ids of a broker's logs of the queue, also of those that are set aside."""
    (directory,) = cluster.brokers[number].broker.directories
    found = [log.topic_id for key, log in directory.logs.items() if key.topic == TOPIC]
    return found + [stray.topic_id for stray in directory.strays]


def topic_id(home: Home) -> bytes | None:
    """Return the id of the queue's topic as a broker's clients see it; None: it has none."""
    found = home.declarations.tables._broker.image.topics.get(TOPIC)
    return None if found is None else found.topic_id


async def published(home: Home, body: str) -> None:
    """Publish a message, and wait until it is confirmed."""
    told: list[Any] = []
    awaited: Any = {}
    assert home.host.publish(["q"], persistent(body), awaited)
    home.host.when_stored(awaited, told.append)
    await until(lambda: told)
    assert not told[0]


async def used(cluster: SimCluster, home: Home) -> bytes:
    """Declare the queue, publish to it, and return its topic's id once all brokers have its log."""
    await home.declare("q", durable=True, arguments=QUORUM)
    await published(home, "old")
    await until(lambda: all(ids(cluster, number) for number in range(3)))
    found = topic_id(home)
    assert found is not None
    return found


def store_of(cluster: SimCluster, number: int) -> Store:
    """Return a broker's connection to the metadata store."""
    links = cluster.brokers[number].cluster_links
    assert links is not None
    return links._store


async def notes(cluster: SimCluster, number: int) -> list[str]:
    """Return the topic ids that controllers have left for a broker."""
    try:
        return await store_of(cluster, 0).children(f"{DELETED_REPLICAS}/{number}")
    except NoNode:
        return []


async def is_used_again(cluster: SimCluster, home: Home, old: bytes) -> None:
    """Use the queue that was declared again: it has a topic of its own and no old message."""
    await home.declare("q", durable=True, arguments=QUORUM)
    await published(home, "new")
    assert topic_id(home) != old
    home.consume("q")
    await until(lambda: home.bodies)
    await asyncio.sleep(1)
    assert set(home.bodies) == {"new"}


@pytest.mark.parametrize("ends", ["stop", "kill"])
def test_queue_is_used_again_while_a_broker_with_a_log_of_it_is_down(ends: str) -> None:
    async def story(cluster: SimCluster, home: Home, leader: Home) -> None:
        old = await used(cluster, home)
        if ends == "stop":
            await cluster.stop(DOWN)
        else:
            cluster.kill(DOWN)  # its session lasts
        await leader.delete("q")
        await is_used_again(cluster, home, old)
        assert await notes(cluster, DOWN) == [old.hex()]
        await (cluster.start if ends == "stop" else cluster.start_again)(DOWN)
        assert old not in ids(cluster, DOWN)
        assert await notes(cluster, DOWN) == []

    played(story, DOWN)


@pytest.mark.parametrize("suspected_first", [False, True])
def test_queue_is_used_again_before_the_session_of_a_killed_broker_ends(
    suspected_first: bool,
) -> None:
    async def story(cluster: SimCluster, home: Home, leader: Home) -> None:
        old = await used(cluster, home)
        image = cluster.brokers[0].broker.image
        cluster.kill(DOWN)
        if suspected_first:
            await until(lambda: DOWN in image.suspects)
        await leader.delete("q")
        await home.declare("q", durable=True, arguments=QUORUM)
        await published(home, "new")
        assert DOWN in image.brokers, "its session lasts"
        assert DOWN not in image.topics[TOPIC].partitions[0].replicas
        await is_used_again(cluster, home, old)
        await cluster.start_again(DOWN)
        assert old not in ids(cluster, DOWN)
        await until(lambda: DOWN not in image.suspects)
        assert await notes(cluster, DOWN) == []

    played(story, DOWN)


def test_deletion_that_waits_for_a_broker_ends_when_it_seems_to_be_dead() -> None:
    async def story(cluster: SimCluster, home: Home, leader: Home) -> None:
        old = await used(cluster, home)
        controller = cluster.controller()
        image = controller.broker.image
        info = image.brokers[BrokerId(DOWN)]
        cut_off(cluster, int(controller.broker.broker_id), DOWN)
        await leader.delete("q")
        using = asyncio.ensure_future(is_used_again(cluster, home, old))
        await asyncio.sleep(4)
        assert not using.done()
        image.suspect(info.broker_id, info.epoch)
        await controller.carry_out(BrokerSuspected(info.broker_id, info.epoch))
        await using
        mend(cluster, int(controller.broker.broker_id), DOWN)
        await until(lambda: old not in ids(cluster, DOWN))

    played(story, DOWN)


def test_broker_that_only_seemed_to_be_dead_is_ordered_to_delete_its_log() -> None:
    async def story(cluster: SimCluster, home: Home, leader: Home) -> None:
        old = await used(cluster, home)
        image = cluster.brokers[0].broker.image
        image.suspect(BrokerId(DOWN), image.brokers[BrokerId(DOWN)].epoch)
        await leader.delete("q")
        await is_used_again(cluster, home, old)
        await until(lambda: old not in ids(cluster, DOWN))
        image.believe(BrokerId(DOWN), image.brokers[BrokerId(DOWN)].epoch)

    played(story, DOWN)


def test_broker_deletes_the_log_of_a_queue_that_is_declared_no_more() -> None:
    async def story(cluster: SimCluster, home: Home, leader: Home) -> None:
        old = await used(cluster, home)
        await cluster.stop(DOWN)
        await leader.delete("q")
        await until(lambda: topic_id(home) is None)
        await asyncio.sleep(5)
        assert await notes(cluster, DOWN) == [old.hex()]
        await cluster.start(DOWN)
        assert ids(cluster, DOWN) == []

    played(story, DOWN)


def test_broker_whose_session_expires_deletes_its_logs_before_it_registers() -> None:
    async def story(cluster: SimCluster, home: Home, leader: Home) -> None:
        old = await used(cluster, home)
        session = cluster.worlds[DOWN]._sessions[-1]
        cluster.ensemble.cut_off(session)
        image = cluster.brokers[0].broker.image
        await until(lambda: DOWN not in image.brokers)
        await leader.delete("q")
        await is_used_again(cluster, home, old)
        cluster.ensemble.reach_again(session)
        await until(lambda: old not in ids(cluster, DOWN))
        await until(lambda: DOWN in image.brokers)

    played(story, DOWN)


def test_note_that_is_left_behind_a_registration_is_found_by_a_later_look() -> None:
    async def story(cluster: SimCluster, home: Home, leader: Home) -> None:
        old = await used(cluster, home)
        path = f"{DELETED_REPLICAS}/{DOWN}/{old.hex()}"
        await store_of(cluster, 0).create(path, TOPIC.encode(), parents=True)
        await until(lambda: old not in ids(cluster, DOWN), deleted_logs.LOOK_SECONDS + 5)

    played(story, DOWN)


def test_check_during_another_check_of_the_same_notes_does_not_fail() -> None:
    """A broker that registers in a new session checks while its periodic check runs."""

    async def story(cluster: SimCluster, home: Home, leader: Home) -> None:
        server, store = cluster.brokers[DOWN], store_of(cluster, DOWN)
        path = f"{DELETED_REPLICAS}/{DOWN}/{bytes(16).hex()}"
        await store.create(path, b"gone", parents=True)

        class Overtaken:
            async def delete_topics(self, ids: object) -> dict[object, object]:
                await store.delete(path)  # as the other check does
                return {}

        await deleted_logs.DeletedLogs(server.broker, store, Overtaken()).delete()  # type: ignore[arg-type]
        assert not await notes(cluster, DOWN)

    played(story, DOWN)
