"""Memory and disk alarms of one broker block the publishers of all brokers of its cluster."""

from collections.abc import Awaitable, Callable

from headrace.model.nouns import BrokerId
from headrace.testing.sim.cluster import SimCluster
from headrace.vhosts.alarms import DISK, MEMORY
from headrace.vhosts.shared_alarms import NONE_LOW, Alarm, SharedAlarms
from tests.support.cluster.peer_kit import cut_off, mend, play, started
from tests.support.sim.amqp import frontend_of, queue_cluster_of, serve_amqp
from tests.support.sim.cluster import until

BROKERS = (0, 1, 2)


def alarms(cluster: SimCluster, number: int) -> SharedAlarms:
    found = queue_cluster_of(cluster.brokers[number])._alarms
    assert found is not None
    return found


def low(cluster: SimCluster, number: int, *resources: str) -> None:
    """Have these resources be low on a broker."""
    alarms(cluster, number).changed(frozenset(resources))


async def until_told(cluster: SimCluster, reason: str | None, *brokers: int) -> None:
    """Wait until brokers block their publishers for a reason; None: for none."""
    await until(
        lambda: all(
            frontend_of(cluster.brokers[number])._blocked == reason for number in brokers or BROKERS
        )
    )


def played(story: Callable[[SimCluster], Awaitable[None]]) -> None:
    async def whole(cluster: SimCluster) -> None:
        serve_amqp(cluster)
        await started(cluster, *BROKERS)
        await story(cluster)

    play(whole)


def test_alarm_of_a_broker_blocks_publishers_on_all() -> None:
    async def story(cluster: SimCluster) -> None:
        low(cluster, 1, DISK)
        await until_told(cluster, "low on disk")
        low(cluster, 2, MEMORY)
        await until_told(cluster, "low on disk & memory")
        low(cluster, 1)
        await until_told(cluster, "low on memory")
        low(cluster, 2)
        await until_told(cluster, None)

    played(story)


def test_alarm_ends_with_its_broker() -> None:
    async def story(cluster: SimCluster) -> None:
        low(cluster, 1, DISK)
        await until_told(cluster, "low on disk")
        cluster.kill(1)
        await until_told(cluster, None, 0, 2)
        await cluster.start_again(1)
        await until_told(cluster, None)

    played(story)


def test_broker_that_registers_is_told_of_alarms() -> None:
    async def story(cluster: SimCluster) -> None:
        cluster.kill(2)
        low(cluster, 0, MEMORY)
        await until_told(cluster, "low on memory", 0, 1)
        await cluster.start_again(2)
        await until_told(cluster, "low on memory")

    played(story)


def test_alarm_that_ends_while_a_broker_is_cut_off_ends_there_too() -> None:
    async def story(cluster: SimCluster) -> None:
        low(cluster, 0, DISK)
        await until_told(cluster, "low on disk")
        cut_off(cluster, 0, 1)
        low(cluster, 0)
        await until_told(cluster, None, 0, 2)
        mend(cluster, 0, 1)
        await until_told(cluster, None)

    played(story)


def test_earlier_alarm_that_arrives_late_changes_nothing() -> None:
    async def story(cluster: SimCluster) -> None:
        epoch = cluster.brokers[1].controller.applier.broker_epoch
        first = alarms(cluster, 0)
        first.noted(BrokerId(1), Alarm(epoch, 2, NONE_LOW))
        first.noted(BrokerId(1), Alarm(epoch, 1, frozenset({DISK})))
        await until_told(cluster, None)

    played(story)
