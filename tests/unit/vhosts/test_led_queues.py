"""Queues of a cluster are run by the leaders of their partitions, as these change."""

import asyncio
from typing import TYPE_CHECKING

import pytest

from headrace.model.errors import ApiError, ErrorCode
from headrace.queues.engine.closed_queue import ClosedQueue
from headrace.queues.engine.delivery_turns import AnyQueue
from headrace.queues.engine.hosted_queue import HostedQueue
from headrace.queues.engine.queue_host import QueueHost
from headrace.queues.port import Consumer, Getter, Handover
from headrace.queues.refusals import Refused
from headrace.vhosts.led_queues import LOADS_MAX
from tests.support.cluster.queue_part import AT, QueueCluster, play
from tests.support.queues.policies import change_queue
from tests.support.sim.cluster import until

if TYPE_CHECKING:
    from headrace.broker.partition import Partition
    from headrace.model.errors import HeadraceError
    from headrace.ports.callbacks import Done
    from tests.support.cluster.queue_part import QueuePart


def test_queue_moves_with_messages_settlements_and_holes() -> None:
    async def story(cluster: QueueCluster) -> None:
        first = cluster.leader
        await first.published(*"abcd")
        assert [await first.take(), await first.get(), await first.take()] == ["a", "b", "c"]
        await first.settled()
        await asyncio.sleep(1)
        second = await cluster.move(1)
        assert second.hosted.ready == 2
        assert [await second.take(), await second.take()] == ["b*", "d*"]
        assert await second.get() is None
        await second.published("e")
        await second.settled()
        third = await cluster.move(2)
        assert third is first
        assert [await third.take(), await third.get()] == ["e*", None]

    play(story)


def test_leader_that_resigns_confirms_nothing_and_releases_memory() -> None:
    async def story(cluster: QueueCluster) -> None:
        first = cluster.leader
        await first.published(*"ab")
        assert await first.get() == "a"
        partition = first.broker.partitions[AT]
        partition.role.flush_on_ack(True)
        told = first.publish("late")
        assert first.windows_bytes > 0
        assert told == []
        await cluster.move(3)
        assert len(told) == 1
        assert (first.windows_bytes, first.durable.of_queues.logs.memory.bytes) == (0, 0)
        first.channel.ack(first.tag)
        assert first.publish("refused") == [False]
        with_right = cluster.leader
        found = [await with_right.take() for _ in range(4)]
        assert found[:2] == ["a*", "b*"]
        if told == [True]:
            assert found[2] in ("late", "late*")

    play(story)


def test_consumers_of_a_queue_that_moves_are_cancelled() -> None:
    async def story(cluster: QueueCluster) -> None:
        first = cluster.leader
        consumer = Consumer(first.hosted, first.channel, "c")
        first.host.consume(consumer, lambda refused: None)
        got: list[object] = []
        assert await first.get() is None
        await cluster.move(1)
        await until(lambda: first.cancelled == [consumer])
        assert got == []

    play(story)


def test_move_is_reported_before_publishes_are_reported_as_unstored() -> None:
    async def story(cluster: QueueCluster) -> None:
        first = cluster.leader
        led = first.hosted
        told: list[object] = []

        def moved(host: QueueHost, queue: AnyQueue) -> None:
            assert not queue.refused
            told.append(queue)
            host.end_consumers(host.unhost(queue))

        first.led.moved = moved
        await first.published("a")
        await cluster.move(1)
        assert told == [led]
        assert isinstance(first.queue, ClosedQueue)
        assert first.queue.led_elsewhere

    play(story)


def test_message_of_a_channel_that_a_refused_get_closes_is_not_handed_over() -> None:
    """Nothing would settle it: it would never be ready at the next leader."""

    async def story(cluster: QueueCluster) -> None:
        first = cluster.leader
        handovers: list[Handover] = []

        def moved(host: QueueHost, queue: AnyQueue) -> None:
            assert isinstance(queue, HostedQueue)
            host.unhost(queue)
            handovers.append(queue.handover())

        def refused(got: object) -> None:
            assert isinstance(got, Refused)
            first.channel.close()

        first.led.moved = moved
        await first.published("a")
        assert await first.get() == "a"
        first.hosted.pause()
        consumer = Consumer(first.hosted, first.channel, "", counted=False)
        first.hosted.get(Getter(consumer, refused), first.broker.clock.monotonic())
        second = await cluster.move(1)
        assert [handover.held for handover in handovers] == [[]]
        assert await second.take() == "a*"

    play(story)


def test_queue_is_refused_where_it_is_not_led() -> None:
    async def story(cluster: QueueCluster) -> None:
        other = cluster.parts[1]
        assert isinstance(other.queue.refused, Refused)
        assert "is down or cannot be reached" in str(other.queue.refused)
        assert other.publish("a") == [False]

    play(story)


def test_publishes_wait_while_the_isr_is_too_small() -> None:
    async def story(cluster: QueueCluster) -> None:
        here = cluster.leader
        await here.published("a")
        await cluster.leave_alone(2)
        told = here.publish(*"bcd")
        await asyncio.sleep(5)
        assert told == []
        assert await here.take() in ("a", "a*"), "committed messages are delivered"
        await cluster.sim.start_again(3)
        await until(lambda: told == [True] * 3)
        assert [(await here.take() or "")[0] for _ in range(3)] == ["b", "c", "d"]

    play(story)


def test_publishers_pause_while_much_waits_for_the_isr() -> None:
    async def story(cluster: QueueCluster) -> None:
        here = cluster.leader
        await cluster.leave_alone(2)
        told = here.publish(*["x" * 1000] * 100)
        resumed: list[bool] = []
        logs = here.durable.of_queues.logs
        assert logs.hold_up(lambda: resumed.append(True)) == 1
        assert logs.memory.bytes > 100_000
        await asyncio.sleep(1)
        assert (told, resumed) == ([], [])
        await cluster.sim.start_again(1)
        await until(lambda: told == [True] * 100)
        assert resumed == [True]
        assert logs.memory.bytes == 0

    play(story)


class FailingLoads:
    """The first loads of a broker's queues, which fail."""

    def __init__(self, part: "QueuePart", failures: int) -> None:
        copies = part.durable.of_queues.logs.copies
        assert copies is not None
        self._newest = copies.newest
        self.failures = failures
        self.count = 0
        copies.newest = self.newest  # type: ignore[method-assign]

    def newest(self, partition: "Partition", done: "Done[bytes | HeadraceError]") -> None:
        """Read the newest file of settled positions, or fail."""
        self.count += 1
        if self.count > self.failures:
            self._newest(partition, done)
        else:
            done(ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "Input/output error"))


def test_queue_whose_log_cannot_be_loaded_at_first_is_loaded_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(cluster: QueueCluster) -> None:
        await cluster.leader.published(*"abc")
        assert await cluster.leader.take() == "a"
        await cluster.leader.settled()
        part = cluster.parts[1]
        loads = FailingLoads(part, 2)
        await cluster.assign(1, 2, 3)
        await cluster.sim.elect(AT.topic)
        await until(lambda: loads.count == 1)
        assert part.publish("refused") == [False]
        await until(lambda: loads.count == 2)
        # With other settings it is the same queue, which is loaded again.
        change_queue(part.host, "q", delivery_limit=7)
        await until(lambda: loads.count == 3 and part.is_loaded)
        await part.published("d")
        assert [await part.take() for _ in range(3)] == ["b*", "c*", "d"]
        await part.settled()
        await cluster.in_sync(1, 2, 3)
        assert part.hosted.settings.delivery_limit == 7
        assert "cannot be loaded: KAFKA_STORAGE_ERROR: Input/output error" in caplog.text

    play(story)


def test_log_that_cannot_be_loaded_is_loaded_again_some_times_in_a_term() -> None:
    async def story(cluster: QueueCluster) -> None:
        await cluster.leader.published("a")
        loads = FailingLoads(cluster.parts[1], LOADS_MAX)
        await cluster.assign(1, 2, 3)
        await cluster.sim.elect(AT.topic)
        await until(lambda: loads.count == LOADS_MAX)
        await asyncio.sleep(120)
        assert loads.count == LOADS_MAX
        await cluster.move(2)
        part = await cluster.move(1)
        assert await part.take() == "a*"

    play(story)


def test_queue_runs_only_once_it_has_the_settings_of_its_policies() -> None:
    async def story(cluster: QueueCluster) -> None:
        await cluster.leader.published("a")
        part = cluster.parts[1]
        part.led.is_ready = lambda vhost: False
        await cluster.assign(1, 2, 3)
        await cluster.sim.elect(AT.topic)
        await asyncio.sleep(1)
        part.led.look_again()
        assert isinstance(part.queue, ClosedQueue)
        part.led.is_ready = lambda vhost: vhost == "/"
        part.led.look_again()
        await until(lambda: part.is_loaded)
        hosted = part.queue
        part.led.look_again()
        assert part.queue is hosted, "it waits only once"
        assert await part.take() == "a*"

    play(story)
