"""Messages of a queue are stored in the order in which they arrived, whatever threads do."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.broker.partition import Partition
from headrace.config.log_config import LogConfig
from headrace.frontends.rocketmq.sending import QueuedSend, Sending
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import LeaderEpoch, TopicPartition
from headrace.ports.deadlines import Deadlines
from headrace.wire.rocketmq.record_header import MessageFacts
from headrace.wire.rocketmq.sent_messages import SentMessage
from tests.support.log.log import World, values

FACTS = MessageFacts(0, 0, 0, 0, bytes(8), b"TAGS\x01A\x02")


class HandDisk:
    """Threads whose jobs end when the test says so."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []

    def run(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.jobs.append((work, done))

    def end(self, at: int = 0) -> None:
        """Run a job and report its result."""
        work, done = self.jobs.pop(at)
        try:
            result = work()
        except ApiError as error:
            result = error
        done(result)


class Queues:
    """Two queues of one topic, and what was reported of their sends."""

    def __init__(self, codec: str = "producer") -> None:
        self.world = World(config=LogConfig(compression_type=codec))
        self.disk = HandDisk()
        self.partitions = [self._led(number) for number in range(2)]
        broker: Any = SimpleNamespace(
            clock=self.world.clock,
            disk=self.disk,
            partition=lambda topic, number: self.partitions[number],
        )
        self.sending = Sending(broker, Deadlines(self.world.clock))
        self.told: dict[str, int | ApiError] = {}

    def _led(self, number: int) -> Partition:
        log = self.world.log(TopicPartition("t", number))
        partition = Partition(log, flusher=self.world.directory.flusher)
        partition.role.lead(LeaderEpoch(1))
        return partition

    def queued(self, body: str, queue: int = 0) -> QueuedSend:
        def done(result: int | ApiError) -> None:
            self.told[body] = result

        return QueuedSend(TopicPartition("t", queue), [SentMessage(body.encode(), FACTS)], done)

    def send(self, *bodies: str, queue: int = 0) -> None:
        """Send messages in one pass."""
        for body in bodies:
            self.sending.add(self.queued(body, queue))
        self.sending.write()

    def stored(self, queue: int = 0) -> list[str]:
        """Let all turns end; return the bodies in a queue's log."""
        self.world.settle()
        found = values(self.partitions[queue].log).values()
        return [cast("bytes", value).decode() for value in found]


def test_batch_waits_while_an_earlier_one_of_its_queue_is_compressed() -> None:
    here = Queues("zstd")
    here.send("a")
    here.send("b", "c")
    here.send("x", queue=1)
    assert len(here.disk.jobs) == 2, "one of each queue"
    here.disk.end(1)
    assert (here.stored(0), here.stored(1)) == ([], ["x"])
    here.disk.end()
    here.disk.end()
    assert here.stored() == ["a", "b", "c"]
    assert here.told == {"x": 0, "a": 0, "b": 1, "c": 2}
    assert not here.sending.has_some


def test_batch_waits_for_the_compression_though_the_topic_is_no_longer_compressed() -> None:
    here = Queues("gzip")
    here.send("a")
    here.partitions[0].log.config = LogConfig()
    here.send("b")
    assert here.stored() == []
    here.disk.end()
    assert here.stored() == ["a", "b"]


def test_several_batches_of_one_pass_are_compressed_in_their_order() -> None:
    here = Queues("gzip")
    bodies = [letter * 300_000 for letter in "abc"]
    here.send(*bodies)
    here.send("d")
    for _ in range(3):
        assert len(here.disk.jobs) == 1
        here.disk.end()
    assert here.stored() == [*bodies, "d"]


@pytest.mark.parametrize("refused", [True, False])
def test_a_compression_that_fails_refuses_its_messages_alone(refused: bool) -> None:
    here = Queues("zstd")
    here.send("a")
    here.send("b")
    _, done = here.disk.jobs.pop()
    if refused:
        done(ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE))
    else:
        with pytest.raises(ZeroDivisionError):
            done(ZeroDivisionError())
    here.disk.end()
    assert here.stored() == ["b"]
    assert isinstance(here.told["a"], ApiError)
    assert here.told["b"] == 0


def test_messages_wait_behind_a_held_turn_of_their_queue_alone() -> None:
    here = Queues()
    here.send("a")
    turn = here.sending.hold(TopicPartition("t", 0))
    later = here.sending.hold(TopicPartition("t", 0))
    here.send("d")
    here.send("x", queue=1)
    assert (here.stored(0), here.stored(1)) == (["a"], ["x"])
    here.sending.end_turn(later, here.queued("c"))
    assert here.stored() == ["a"]
    here.sending.end_turn(turn, here.queued("b"))
    assert here.stored() == ["a", "b", "c", "d"]


def test_a_held_turn_without_messages_lets_those_behind_it_go_on() -> None:
    here = Queues()
    turn = here.sending.hold(TopicPartition("t", 0))
    here.send("a")
    here.sending.end_turn(turn, None)
    assert here.stored() == ["a"]
    assert not here.sending.has_some


def test_messages_behind_a_held_turn_stay_behind_those_that_wait_to_be_compressed() -> None:
    here = Queues("gzip")
    bodies = [letter * 300_000 for letter in "ab"]
    for body in bodies:
        here.sending.add(here.queued(body))
    turn = here.sending.hold(TopicPartition("t", 0))
    here.send("d")
    here.sending.end_turn(turn, here.queued("c"))
    while here.disk.jobs:
        here.disk.end()
        here.stored()
    assert here.stored() == [*bodies, "c", "d"]
