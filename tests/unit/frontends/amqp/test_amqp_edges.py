"""Edges of AMQP's limits and timers: at the bound, one beyond it, and the timer after the first."""

from typing import TYPE_CHECKING, cast

import pytest

from headrace.frontends.amqp.channel.basic_publish import Confirms
from headrace.frontends.amqp.channel.consumer_timeouts import LOOK_SECONDS
from headrace.frontends.amqp.connection.content_frames import ContentAssembly
from headrace.frontends.amqp.connection.negotiation import Settings, tuned
from headrace.frontends.amqp.connection.partial_publishes import Unfinished
from headrace.frontends.amqp.replies import reply_to
from headrace.ports.deadlines import Deadlines
from headrace.queues.port import ALL_STORED, ALL_UNSTORED
from headrace.queues.refusals import RefusalKind, Refused
from headrace.vhosts.alarms import LOOK_SECONDS_MAX, LOOK_SECONDS_MIN, ResourceAlarms
from headrace.wire.amqp.control_methods import (
    ChannelClose,
    ConnectionClose,
    ConnectionTuneOk,
    TxCommit,
    TxCommitOk,
    TxSelect,
)
from headrace.wire.amqp.frames import FRAME_HEADER, FRAME_METHOD, Frame, walk_frames
from headrace.wire.amqp.methods import Method, decode_method
from headrace.wire.amqp.model_methods import (
    BasicAck,
    BasicCancel,
    BasicNack,
    BasicPublish,
    BasicQos,
    QueueDeclare,
)
from headrace.wire.amqp.properties import make_header
from headrace.wire.amqp.reply_codes import ChannelClosing, ConnectionClosing, ReplyCode
from tests.support.amqp.channels import QueueRoom, bodies, names
from tests.support.amqp.kit import opened
from tests.support.coordination.groups_kit import HandClock
from tests.support.queues.late_target import LateTarget

if TYPE_CHECKING:
    from headrace.frontends.amqp.connection.ports import Outlet

# Queues that expire, and messages


def test_a_queue_that_was_used_expires_as_long_after_its_last_consumer_left() -> None:
    room = QueueRoom()
    client = room.client()
    client.declare(arguments={"x-expires": 1000})
    client.consume()
    room.clock.advance(5)
    assert "q" in room.queues
    client.ask(BasicCancel("c"))
    room.clock.advance(0.99)
    assert "q" in room.queues
    room.clock.advance(0.02)
    assert "q" not in room.queues


@pytest.mark.parametrize("passive", [True, False])
def test_a_queue_that_is_declared_again_expires_from_then_on(passive: bool) -> None:
    room = QueueRoom()
    client = room.client()
    client.declare(arguments={"x-expires": 1000})
    room.clock.advance(0.9)
    client.ask(QueueDeclare(queue="q", passive=passive, arguments={"x-expires": 1000}))
    room.clock.advance(0.99)
    assert "q" in room.queues
    room.clock.advance(0.02)
    assert "q" not in room.queues


def test_a_message_of_a_shorter_life_moves_the_queues_timer_to_an_earlier_time() -> None:
    room = QueueRoom()
    client = room.client()
    client.declare()
    client.publish(b"long", expiration="10000")
    room.queues["q"].purge()
    client.publish(b"short", expiration="1000")
    room.clock.advance(1.01)
    assert room.queues["q"].ready == 0


def test_a_dead_letter_does_not_go_round_for_ever() -> None:
    room = QueueRoom()
    client = room.client()
    letters = {"x-dead-letter-exchange": "", "x-message-ttl": 10}
    client.declare("a", arguments={**letters, "x-dead-letter-routing-key": "b"})
    client.declare("b", arguments={**letters, "x-dead-letter-routing-key": "a"})
    client.publish(b"round", key="a")
    for _ in range(5):
        room.clock.advance(0.02)
    assert [room.queues[name].ready for name in "ab"] == [0, 0]


def test_a_consumer_gets_more_than_one_batch_without_saying_anything() -> None:
    room = QueueRoom()
    client = room.client()
    client.declare()
    client.publish(*[b"m"] * 2500)
    heard = client.consume(no_ack=True)
    for _ in range(5):
        room.clock.advance(0)
        heard += client.heard()
    assert len(heard) == 2500


# Credit and timeouts


def test_who_does_not_acknowledge_is_stopped_by_the_limit_that_others_of_his_channel_reached() -> (
    None
):
    room = QueueRoom()
    client = room.client()
    client.declare("held")
    client.declare("free")
    client.ask(BasicQos(0, 1, True))
    client.consume("held", "h")
    client.publish(b"1", key="held")
    client.consume("free", "f", no_ack=True)
    assert client.publish(b"2", key="free") == []
    assert bodies(client.say(BasicAck(1))) == [b"2"]


def test_a_delivery_behind_one_that_may_be_held_long_is_looked_at_within_a_minute() -> None:
    room = QueueRoom(consumer_timeout_ms=3_600_000)
    client = room.client()
    client.declare("slow")
    client.declare("quick", arguments={"x-consumer-timeout": 1000})
    client.consume("slow", "s")
    client.consume("quick", "q")
    client.publish(b"1", key="slow")
    client.publish(b"2", key="quick")
    client.say(BasicAck(1))
    room.clock.advance(LOOK_SECONDS + 0.1)
    assert names(client.heard()) == ["ChannelClose"]


# Alarms and bounds of what is begun


def test_memory_that_was_short_is_looked_at_often_though_the_disk_needs_no_look() -> None:
    clock, told = HandClock(), list[str | None]()
    room = QueueRoom()
    memory = room.broker.memory
    ResourceAlarms(Deadlines(clock), memory, lambda: 1 << 50, 1000, told.append)
    clock.advance()
    memory.bytes = memory.bytes_max
    memory.look()
    clock.advance(LOOK_SECONDS_MIN + 0.01)
    memory.bytes = 0
    clock.advance(2 * LOOK_SECONDS_MIN)
    assert told == ["low on memory", None]


def test_a_disk_that_cannot_be_asked_is_not_asked_without_a_pause() -> None:
    clock, looks = HandClock(), list[int]()

    def free_bytes() -> int:
        looks.append(1)
        raise OSError("gone")

    memory = QueueRoom().broker.memory
    ResourceAlarms(Deadlines(clock), memory, free_bytes, 1000, lambda reason: None)
    for _ in range(20):
        clock.advance(LOOK_SECONDS_MAX / 10)
    assert 2 <= len(looks) <= 4


class Begun:
    """A connection that has begun to publish."""

    def __init__(self) -> None:
        self.failed = False

    def fail(self, error: ConnectionClosing) -> None:
        """Note it."""
        self.failed = True


def test_what_is_begun_may_reach_its_bound_and_all_that_one_has_begun_counts() -> None:
    unfinished = Unfinished(20)
    most, other = Begun(), Begun()
    unfinished.note(most, 6)
    unfinished.note(most, 6)
    unfinished.note(other, 8)
    assert not most.failed
    unfinished.note(other, 1)
    assert (most.failed, other.failed) == (True, False)


def test_who_has_begun_most_and_goes_on_is_told_itself() -> None:
    unfinished = Unfinished(20)
    one = Begun()
    unfinished.note(one, 20)
    with pytest.raises(ConnectionClosing, match="has begun 21 bytes"):
        unfinished.note(one, 1)


@pytest.mark.parametrize(
    ("size", "closes"), [(512 << 20, ChannelClosing), ((512 << 20) + 1, ConnectionClosing)]
)
def test_an_announced_body_above_half_a_gigabyte_closes_the_connection(
    size: int, closes: type[Exception]
) -> None:
    contents = ContentAssembly(1000, lambda size: None)
    contents.begin(BasicPublish(0, "", "q"))
    with pytest.raises(closes):
        contents.frame(Frame(FRAME_HEADER, 1, make_header(size)))


# Confirms and commits


class Written:
    """An outlet that keeps what is written."""

    number = 1
    frame_bytes_max = 131_072

    def __init__(self) -> None:
        self.methods: list[Method] = []

    def write(self, frames: bytes) -> None:
        """Keep it."""
        found = walk_frames(frames, 1 << 20)
        self.methods += [decode_method(f.payload) for f in found if f.kind == FRAME_METHOD]


def test_what_one_of_two_stores_could_not_keep_is_refused_whichever_says_so_first() -> None:
    host = QueueRoom().broker.virtual_hosts.hosts["/"]
    for first, second in ((False, True), (True, False)):
        written = Written()
        confirms = Confirms(cast("Outlet", written), host)
        one, other = LateTarget(numbers=False), LateTarget(numbers=False)
        confirms.awaited.update({one: None, other: None})
        confirms.next += 2
        confirms.flush()
        one.decide(ALL_STORED if first else ALL_UNSTORED)
        other.decide(ALL_STORED if second else ALL_UNSTORED)
        assert written.methods == [BasicNack(2, True, False)]


def test_a_confirm_of_one_message_beside_one_refused_does_not_say_multiple() -> None:
    written, host = Written(), QueueRoom().broker.virtual_hosts.hosts["/"]
    confirms = Confirms(cast("Outlet", written), host)
    confirms.next, confirms.refused = 4, [2]
    confirms.flush()
    assert written.methods == [BasicAck(1, False), BasicNack(2, False, False), BasicAck(3, False)]


def test_a_commit_that_a_store_could_not_keep_closes_the_channel() -> None:
    room = QueueRoom(late=True)
    client = room.client()
    client.declare(durable=True)
    client.ask(TxSelect())
    client.publish(b"a", delivery_mode=2)
    assert client.say(TxCommit()) == []
    room.stores["q"].keep(False)
    (heard,) = client.heard()
    assert isinstance(heard.method, ChannelClose)
    assert "partial tx completion" in heard.method.reply_text
    assert not isinstance(heard.method, TxCommitOk)


# Negotiation and ends


def test_what_is_negotiated_may_be_the_least_and_the_most() -> None:
    settings = Settings()
    for answer in (ConnectionTuneOk(1, 4096, 0), ConnectionTuneOk(2047, 131_072, 0)):
        assert tuned(settings, answer).frame_bytes_max == answer.frame_max
    for answer in (ConnectionTuneOk(2048, 4096, 0), ConnectionTuneOk(1, 131_073, 0),
                   ConnectionTuneOk(1, 4095, 0), ConnectionTuneOk(0, 4096, 0)):  # fmt: skip
        with pytest.raises(ConnectionClosing):
            tuned(settings, answer)


@pytest.mark.parametrize(("heartbeat", "seconds"), [(5, 5.0), (0, 30.0), (60, 30.0)])
def test_who_does_not_answer_a_close_is_gone_after_a_heartbeat_and_30_seconds_at_most(
    heartbeat: int, seconds: float
) -> None:
    client = opened(heartbeat=heartbeat)
    client.connection.close("over")
    assert isinstance(client.heard()[-1], ConnectionClose)
    client.wait(seconds - 0.1)
    assert not client.over()
    client.wait(0.2)
    assert client.over()


def test_every_refusal_of_the_model_has_a_reply_code() -> None:
    for kind in RefusalKind:
        error = reply_to(Refused(kind, "queue", "why"))
        assert str(error) == f"{error.code.name} - why"
        assert isinstance(error, ConnectionClosing) == (error.code >= ReplyCode.FRAME_ERROR)
