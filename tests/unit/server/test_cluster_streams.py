"""Streams of a cluster over the simulated network: each broker reads them from its replica."""

from collections.abc import Awaitable
from typing import Any

from headrace.queue_stores.queue_settings import ConsumerSettings, StreamOffset, StreamStart
from headrace.server.cluster.queue_figures import RemoteSurvey
from headrace.testing.sim.cluster import SimCluster
from headrace.wire.amqp.field_table import FieldTable
from tests.support.cluster.queue_home import Home, played
from tests.support.queues.port_place import persistent
from tests.support.sim.cluster import until

STREAM: FieldTable = {"x-queue-type": "stream"}
FROM_FIRST = ConsumerSettings(stream_offset=StreamOffset(StreamStart.FIRST))


def figures(home: Home) -> RemoteSurvey:
    survey = RemoteSurvey(home.queues)
    list(survey.slices())
    return survey


def stored(home: Home, *bodies: str) -> Awaitable[None]:
    """Publish, and wait until the messages are stored."""
    told: list[Any] = []
    awaited: Any = {}
    for body in bodies:
        assert home.host.publish(["s"], persistent(body), awaited)
    home.host.when_stored(awaited, told.append)
    return until(lambda: [*map(bool, told)] == [False])


def test_stream_is_read_at_each_broker_from_its_replica_while_leaders_die() -> None:
    async def story(cluster: SimCluster, home: Home, leader: Home) -> None:
        third = Home(cluster, 2)
        homes = [home, leader, third]
        await home.declare("s", durable=True, arguments=STREAM)
        await stored(home, "0", "1")
        for each in homes:
            each.consume("s", prefetch=1000, wishes=FROM_FIRST)
        await stored(home, "2")
        for each in homes:
            await until(lambda: each.bodies == ["0", "1", "2"])  # noqa: B023
        at = next(at for at, each in enumerate(homes) if "s" in each.host.queues)
        left = [each for number, each in enumerate(homes) if number != at]
        assert [figures(each).delivered for each in left] == [{("/", "s"): 3}] * 2
        await until(lambda: len(homes[at].host.queues["s"].consumers) == 1)
        cluster.kill(at)
        for number in range(3, 20):
            await stored(left[number % 2], str(number))
        for each in left:
            await until(lambda: len(each.bodies) >= 20)  # noqa: B023
            assert each.bodies == [str(number) for number in range(20)]
            assert each.cancelled == []
        assert [figures(each).delivered for each in left] == [{("/", "s"): 20}] * 2

    played(story, 2)


def test_stream_goes_on_where_its_broker_has_led_it() -> None:
    async def story(cluster: SimCluster, home: Home, leader: Home) -> None:
        homes = [home, leader, Home(cluster, 2)]
        await home.declare("s", durable=True, arguments=STREAM)
        await stored(home, "0")
        first = next(each for each in homes if "s" in each.host.queues)
        first.consume("s", prefetch=1000, wishes=FROM_FIRST)
        await stored(home, "1")
        await until(lambda: first.bodies == ["0", "1"])
        queue = first.host.queues["s"]
        first.queues.moved(first.host, queue)  # as if another broker led it
        first.channel.ack(0, multiple=True)
        assert figures(first).consumers == {("/", "s"): 1}
        assert first.bodies == ["0", "1"]
        assert first.cancelled == []

    played(story, 2)
