"""The event that a send waits for, by flush type, role and WAIT, and the answers if it is late."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.broker.partition import Partition
from headrace.broker.replica.in_sync_replicas import ReplicaFetch, Replicas
from headrace.frontends.rocketmq.send_modes import (
    DURABLE,
    UNWAITED,
    SendMode,
    waits_until_stored,
)
from headrace.frontends.rocketmq.sending import QueuedSend, Sending
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, LeaderEpoch, Offset
from headrace.ports.deadlines import Deadlines
from headrace.wire.rocketmq.codes import ResponseCode
from headrace.wire.rocketmq.record_header import MessageFacts
from headrace.wire.rocketmq.sent_messages import SentMessage
from tests.support.log.log import CONFIG, PLACE, World, values

A, B, C = BrokerId(0), BrokerId(1), BrokerId(2)
ASYNC_FLUSH = SendMode(flushes=False)
ASYNC_MASTER = SendMode(replicates=False)
STORES = SendMode(stores_below_min=True)
FACTS = MessageFacts(0, 0, 0, 0, bytes(8), b"TAGS\x01A\x02")
Told = int | ErrorCode | tuple[int, ResponseCode]


class Queue:
    """A queue led by A, alone or with replicas on B and C, and the reports of its sends."""

    def __init__(self, *in_sync: BrokerId, min_insync: int = 1) -> None:
        self.world = World(config=replace(CONFIG, min_insync_replicas=min_insync))
        self.partition = Partition(self.world.log(), flusher=self.world.directory.flusher)
        replicas = Replicas(A, (A, B, C), in_sync, 0)
        if in_sync:
            self.partition.role.lead(LeaderEpoch(1), replicas, now=0.0)
        else:
            self.partition.role.lead(LeaderEpoch(1))
        broker: Any = SimpleNamespace(
            clock=self.world.clock,
            disk=self.world.disk,
            partition=lambda topic, number: self.partition,
        )
        self.sending = Sending(broker, Deadlines(self.world.clock))
        self.told: dict[str, list[Told]] = {}

    def queued(self, mode: SendMode, body: str = "m") -> QueuedSend:
        """Return a send that notes each report of it."""
        heard = self.told.setdefault(body, [])

        def done(result: int | ApiError) -> None:
            heard.append(result.code if isinstance(result, ApiError) else result)

        def late(offset: int, code: ResponseCode) -> None:
            heard.append((offset, code))

        return QueuedSend(PLACE, [SentMessage(body.encode(), FACTS)], done, late, mode)

    def send(self, mode: SendMode = DURABLE, body: str = "m") -> list[Told]:
        """Send a message in a pass of its own; return the list of its reports."""
        self.sending.add(self.queued(mode, body))
        self.sending.write()
        return self.told[body]

    def flush(self) -> None:
        """Let this broker's flush end."""
        self.world.settle()

    def replicate(self, end: int) -> None:
        """Have the followers flushed up to an offset."""
        term = self.partition.role.term
        assert term is not None
        for broker in (B, C):
            term.note_fetch(ReplicaFetch(broker, Offset(end), Offset(end), 1), 1.0)

    def advance(self, seconds: float) -> None:
        """Let time pass in which the disk does nothing."""
        self.world.clock.advance(seconds)


# flush


def test_sync_flush_answers_when_the_message_is_on_disk() -> None:
    queue = Queue()
    told = queue.send()
    queue.advance(1)
    assert told == []
    queue.flush()
    assert told == [0]
    queue.advance(60)
    assert told == [0]


def test_async_flush_answers_when_the_message_is_appended() -> None:
    queue = Queue()
    assert queue.send(ASYNC_FLUSH) == [0]
    assert queue.partition.log.flushed_offset == 0
    assert list(values(queue.partition.log).values()) == [b"m"]


def test_message_with_wait_false_is_answered_when_it_is_appended() -> None:
    queue = Queue(A, B, C)
    assert queue.send(UNWAITED) == [0]
    assert queue.send(DURABLE, "other") == []


def test_flush_that_is_late_is_answered_with_flush_disk_timeout() -> None:
    queue = Queue()
    told = queue.send()
    queue.advance(4.9)
    assert told == []
    queue.advance(0.2)
    assert told == [(0, ResponseCode.FLUSH_DISK_TIMEOUT)]
    assert list(values(queue.partition.log).values()) == [b"m"], "it is stored"
    queue.flush()
    assert told[1:] == [0], "the call drops its second answer"
    assert queue.sending.waits.counts == {ResponseCode.FLUSH_DISK_TIMEOUT: 1}


def test_the_broker_s_own_messages_are_reported_when_they_are_on_disk_however_late() -> None:
    queue = Queue()
    heard: list[int | ApiError] = []
    queue.sending.add(QueuedSend(PLACE, [SentMessage(b"due", FACTS)], heard.append))
    queue.sending.write()
    queue.advance(600)
    assert heard == []
    queue.flush()
    assert heard == [0]


# replicas


def test_sync_master_answers_when_all_in_sync_replicas_have_the_message() -> None:
    queue = Queue(A, B, C)
    told = queue.send()
    queue.flush()
    assert told == []
    queue.replicate(1)
    assert told == [0]


def test_async_master_answers_after_its_own_flush() -> None:
    queue = Queue(A, B, C)
    told = queue.send(ASYNC_MASTER)
    assert told == []
    queue.flush()
    assert told == [0]
    assert queue.partition.high_watermark == 0, "no replica has it, and consumers do not see it"
    queue.replicate(1)
    assert told == [0], "it is reported once"
    assert queue.send(SendMode(flushes=False, replicates=False), "async") == [1]


def test_async_master_is_not_refused_below_min_insync_replicas() -> None:
    queue = Queue(A, min_insync=2)
    told = queue.send(ASYNC_MASTER)
    queue.flush()
    assert told == [0]


def test_replicas_that_are_late_are_answered_with_flush_slave_timeout() -> None:
    queue = Queue(A, B, C)
    told = queue.send()
    queue.flush()
    queue.advance(2.9)
    assert told == []
    queue.advance(0.2)
    assert told == [(0, ResponseCode.FLUSH_SLAVE_TIMEOUT)]


def test_late_flush_of_a_replicated_queue_is_answered_with_flush_disk_timeout() -> None:
    queue = Queue(A, B, C)
    told = queue.send()
    queue.advance(3.1)
    assert told == [], "the flush has 5 s"
    queue.advance(2)
    assert told == [(0, ResponseCode.FLUSH_DISK_TIMEOUT)]


def test_send_below_min_insync_replicas_is_refused_and_nothing_is_stored() -> None:
    queue = Queue(A, min_insync=2)
    assert queue.send() == [ErrorCode.NOT_ENOUGH_REPLICAS]
    assert queue.partition.log.end_offset == 0


def test_send_below_min_insync_replicas_is_stored_and_answered_with_slave_not_available() -> None:
    queue = Queue(A, min_insync=2)
    told = queue.send(STORES)
    assert told == [], "SYNC_FLUSH: its own flush first"
    queue.flush()
    assert told[0] == (0, ResponseCode.SLAVE_NOT_AVAILABLE)
    assert list(values(queue.partition.log).values()) == [b"m"]
    told = queue.send(SendMode(flushes=False, stores_below_min=True), "async")
    assert told[0] == (1, ResponseCode.SLAVE_NOT_AVAILABLE)
    assert queue.sending.waits.counts == {ResponseCode.SLAVE_NOT_AVAILABLE: 2}


# together


def test_messages_of_one_pass_with_different_modes_keep_their_order() -> None:
    queue = Queue()
    for body, mode in (("a", DURABLE), ("b", UNWAITED), ("c", DURABLE)):
        queue.sending.add(queue.queued(mode, body))
    queue.sending.write()
    assert queue.told == {"a": [], "b": [1], "c": []}
    queue.flush()
    assert queue.told == {"a": [0], "b": [1], "c": [2]}
    assert list(values(queue.partition.log).values()) == [b"a", b"b", b"c"]


def test_failed_write_is_reported_to_a_send_that_does_not_wait() -> None:
    queue = Queue()
    queue.world.disk.fail_writes()
    assert queue.send(UNWAITED) == [ErrorCode.KAFKA_STORAGE_ERROR]


def test_lost_leadership_is_reported_to_a_send_that_waits_for_its_own_flush() -> None:
    queue = Queue(A, B, C)
    told = queue.send(ASYNC_MASTER)
    queue.partition.close(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert told == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    queue.flush()
    queue.advance(60)
    assert len(told) == 1


@pytest.mark.parametrize(
    ("properties", "waits"),
    [
        (b"", True),
        (b"WAIT\x01true\x02TAGS\x01A\x02", True),
        (b"TAGS\x01A\x02WAIT\x01TRUE", True),
        (b"TAGS\x01A\x02WAIT\x01false\x02", False),
        (b"WAIT\x01\x02", False),
        (b"AWAIT\x01false\x02", True),
        (b"TAGS\x01WAIT\x02", True),
    ],
)
def test_message_waits_unless_its_property_wait_is_something_other_than_true(
    properties: bytes, waits: bool
) -> None:
    assert waits_until_stored(properties) is waits
