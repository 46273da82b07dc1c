"""The broker is low on memory or on disk: who publishes is held up, nobody else."""

import logging

import pytest

from headrace.ports.deadlines import Deadlines
from headrace.queue_stores.memory.memory_use import MemoryUse
from headrace.vhosts.alarms import (
    LOOK_SECONDS_MAX,
    LOOK_SECONDS_MIN,
    TELL_SECONDS,
    ResourceAlarms,
)
from headrace.wire.amqp.control_methods import (
    ChannelClose,
    ChannelCloseOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionUnblocked,
    TxCommit,
    TxSelect,
)
from headrace.wire.amqp.field_table import FieldTable
from headrace.wire.amqp.frames import FRAME_BODY, encode_frame
from headrace.wire.amqp.methods import encode_method
from headrace.wire.amqp.model_methods import (
    BasicAck,
    BasicConsume,
    BasicPublish,
    BasicQos,
    ExchangeUnbind,
    QueuePurge,
)
from headrace.wire.amqp.properties import Properties, make_header
from tests.support.amqp.channels import QueueClient, QueueRoom, bodies, names
from tests.support.amqp.kit import opened
from tests.support.amqp.messages import message, publish_frames
from tests.support.coordination.groups_kit import HandClock

LEAST = 1_000_000_000
KNOWS: FieldTable = {"capabilities": {"connection.blocked": True}}


class Alarmed:
    """Alarms with a disk and a memory that the test fills."""

    def __init__(self, least: int = LEAST, *, free: int = 100 * LEAST) -> None:
        self.clock = HandClock()
        self.memory = MemoryUse(1 << 20)
        self.free: int | OSError = free
        self.told: list[str | None] = []
        self.looks = 0
        self.alarms = ResourceAlarms(
            Deadlines(self.clock), self.memory, self._free, least, self.told.append
        )
        self.clock.advance()

    def _free(self) -> int:
        self.looks += 1
        if isinstance(self.free, OSError):
            raise self.free
        return self.free

    def fill(self, size: int) -> None:
        """Let messages take so much memory, as a pass of a connection notices."""
        self.memory.bytes = size
        self.memory.look()


def test_memory_and_disk_are_told_in_rabbitmqs_words_and_an_end_only_when_both_are_over() -> None:
    room = Alarmed()
    room.fill(1 << 20)
    assert room.told == ["low on memory"]
    room.free = LEAST - 1
    room.clock.advance(LOOK_SECONDS_MAX)
    assert room.told == ["low on memory", "low on disk & memory"]
    room.fill(0)
    assert room.told[2:] == ["low on disk"]
    room.free = LEAST
    room.clock.advance(LOOK_SECONDS_MAX)
    assert room.told[3:] == [None]


def test_memory_that_is_short_again_and_again_is_in_the_log_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    room = Alarmed()

    def lines_of_a_flap() -> int:
        caplog.clear()
        room.fill(1 << 20)
        room.fill(0)
        return len(caplog.records)

    assert [lines_of_a_flap() for _ in range(3)] == [2, 0, 0]
    room.clock.advance(TELL_SECONDS - 1)
    assert lines_of_a_flap() == 0
    room.clock.advance(1)
    assert [lines_of_a_flap() for _ in range(2)] == [2, 0]
    assert room.told == ["low on memory", None] * 6


def test_the_disk_is_looked_at_the_oftener_the_less_is_left() -> None:
    room = Alarmed()
    room.looks = 0
    room.clock.advance(10 * LOOK_SECONDS_MAX)
    assert room.looks == 10
    room.free = LEAST + 250_000_000
    room.clock.advance(LOOK_SECONDS_MAX)
    room.looks = 0
    room.clock.advance(10)
    assert room.looks == 10
    room.free = LEAST
    room.clock.advance(1)
    room.looks = 0
    room.clock.advance(10)
    assert 99 <= room.looks <= 10 / LOOK_SECONDS_MIN
    assert room.told == []


def test_a_disk_that_cannot_be_looked_at_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    room = Alarmed()
    room.free = OSError("gone")
    room.clock.advance(LOOK_SECONDS_MAX)
    assert "gone" in caplog.text
    assert room.told == []
    room.free = 0
    room.clock.advance(LOOK_SECONDS_MAX)
    assert room.told == ["low on disk"]


def test_a_disk_that_is_low_when_the_broker_starts_is_told_at_once() -> None:
    assert Alarmed(free=LEAST - 1).told == ["low on disk"]


def test_a_disk_far_below_the_bound_is_not_looked_at_all_the_time() -> None:
    room = Alarmed(free=0)
    room.looks = 0
    room.clock.advance(40)
    assert room.looks == 40 * 250_000_000 // LEAST


def test_a_disk_that_was_low_and_cannot_be_looked_at_is_low_until_there_is_room_again() -> None:
    room = Alarmed(free=0)
    room.free = OSError("gone")
    room.clock.advance(2 * LOOK_SECONDS_MAX)
    assert (room.told, room.alarms.reason) == (["low on disk"], "low on disk")
    room.free = LEAST
    room.clock.advance(LOOK_SECONDS_MAX)
    assert room.told == ["low on disk", None]


def test_without_a_bound_the_disk_is_not_looked_at_and_no_timer_runs() -> None:
    room = Alarmed(0)
    room.clock.advance(100)
    assert (room.looks, room.clock.timers) == (0, 0)
    room.fill(1 << 20)
    room.memory.bytes = 0
    room.clock.advance(LOOK_SECONDS_MIN)
    assert room.told == ["low on memory", None]
    room.clock.advance(1)
    assert room.clock.timers == 0


def test_a_publish_stays_untaken_while_there_is_no_room_and_is_taken_afterwards() -> None:
    client = opened()
    channel = client.channel()
    client.connection.block("low on memory")
    wire = publish_frames(1, message(b"a"))
    client.raw(wire * 3)
    assert client.heard() == [ConnectionBlocked("low on memory")]
    assert channel.runs == []
    client.connection.block("low on disk & memory")
    client.raw(wire)
    assert client.heard() == []
    client.connection.unblock(client.now)
    client.raw(b"")
    assert client.heard() == [ConnectionUnblocked()]
    assert [len(run.messages) for run in channel.runs] == [4]


def test_what_came_before_a_publish_is_done_and_what_is_behind_it_waits() -> None:
    client = opened()
    channel = client.channel()
    client.connection.block("low on disk")
    before, after = encode_method(1, BasicAck(1)), encode_method(1, BasicQos(0, 5))
    client.raw(before + publish_frames(1, message(b"a")) + after)
    assert [each[1] for each in channel.settled] == [1]
    assert channel.methods == []
    client.connection.unblock(client.now)
    client.raw(b"")
    assert channel.methods == [BasicQos(0, 5)]


def test_methods_that_are_called_40_in_other_classes_are_no_publishes() -> None:
    client = opened()
    client.channel()
    client.connection.block("low on memory")
    client.raw(encode_method(1, ExchangeUnbind(0, "a", "b", "k", False, {})))
    client.raw(encode_method(1, ChannelClose(200, "", 0, 0)))
    assert not client.connection.holds_publishes
    assert ChannelCloseOk() in client.heard()


def test_a_body_that_had_begun_is_taken_whatever_it_looks_like() -> None:
    client = opened()
    channel = client.channel()
    body = bytes(4) + encode_method(1, BasicPublish())[7:]
    header = make_header(len(body), Properties())
    client.raw(encode_method(1, BasicPublish()) + encode_frame(2, 1, header))
    client.connection.block("low on memory")
    client.raw(encode_frame(FRAME_BODY, 1, body[:4]) + encode_frame(FRAME_BODY, 1, body[4:]))
    assert [run.messages[0].body for run in channel.runs] == [body]
    assert not client.held()


def test_a_client_that_knows_nothing_of_it_is_held_up_without_a_word() -> None:
    room = QueueRoom()
    client = room.client(properties={})
    client.connection.block("low on memory")
    client.connection.take(publish_frames(1, message(b"a")), room.clock.now)
    assert client.connection.holds_publishes
    assert client.heard() == []
    client.connection.unblock(room.clock.now)
    assert client.heard() == []


def test_queues_in_memory_at_the_mark_are_noticed_at_the_end_of_the_pass() -> None:
    room = QueueRoom(memory_bytes_max=1 << 20)
    told: list[bool] = []
    memory = room.broker.memory
    memory.on_short = lambda: told.append(memory.is_short)
    client = room.client()
    client.declare()
    client.publish(bytes(600_000))
    assert told == []
    client.publish(bytes(600_000))
    assert told == [True]
    client.ask(QueuePurge(0, "q"))
    assert told == [True, False]


def test_a_purge_of_many_goes_on_by_itself_and_publishers_go_on_after_it() -> None:
    room = QueueRoom(memory_bytes_max=2 << 20)
    client = room.client()
    client.declare()
    client.publish(*[b"m"] * 10_001)
    assert room.broker.memory.is_short
    assert client.ask(QueuePurge(0, "q")).message_count == 10_001
    room.clock.advance()
    room.broker.memory.look()
    assert (room.broker.memory.bytes, room.broker.memory.is_short) == (0, False)


def begun(client: QueueClient, size: int, channel: int = 1) -> None:
    """Begin a body of twice as much."""
    header = make_header(2 * size, Properties())
    client.raw(encode_method(channel, BasicPublish(0, "", "q")) + encode_frame(2, channel, header))
    client.raw(encode_frame(FRAME_BODY, channel, bytes(size)))


def test_bodies_that_never_come_close_who_has_begun_most_and_nobody_else() -> None:
    room = QueueRoom(unfinished_bytes_max=100_000)
    small, large, last = room.client(), room.client(), room.client()
    begun(small, 20_000)
    begun(large, 60_000)
    assert room.broker.unfinished.bytes == 80_000
    begun(last, 20_001)
    assert small.heard() == last.heard() == []
    (close,) = large.heard()
    assert isinstance(close.method, ConnectionClose)
    assert close.method.reply_code == 506
    assert "RESOURCE_ERROR - this connection has begun 60000 bytes" in close.method.reply_text
    assert room.broker.unfinished.bytes == 40_001
    small.declare()
    small_rest = encode_frame(FRAME_BODY, 1, bytes(20_000))
    assert small.raw(small_rest) == []


def test_who_has_begun_most_is_closed_also_where_it_just_came() -> None:
    room = QueueRoom(unfinished_bytes_max=100_000)
    client = room.client()
    begun(client, 60_000)
    heard = client.raw(encode_frame(FRAME_BODY, 1, bytes(40_001)))
    assert names(heard) == ["ConnectionClose"]
    assert room.broker.unfinished.bytes == 0


def test_a_body_that_is_whole_refused_or_left_is_not_counted_any_more() -> None:
    room = QueueRoom()
    client = room.client()
    client.declare()
    begun(client, 1000)
    client.raw(encode_frame(FRAME_BODY, 1, bytes(1000)))
    assert room.broker.unfinished.bytes == 0
    begun(client, 1000)
    assert room.broker.unfinished.bytes == 1000
    client.connection.lost()
    assert room.broker.unfinished.bytes == 0


def test_what_is_published_in_a_transaction_counts_until_it_is_committed() -> None:
    room = QueueRoom(unfinished_bytes_max=10_000)
    client, other = room.client(), room.client()
    for each in (client, other):
        each.declare()
        each.say(TxSelect())
    client.publish(bytes(1000))
    assert 1000 < room.broker.unfinished.bytes < 1400
    assert names(other.publish(bytes(9000))) == ["ConnectionClose"]
    client.say(TxCommit())
    assert room.broker.unfinished.bytes == 0
    assert room.queues["q"].ready == 1


def test_a_body_in_empty_pieces_keeps_nothing_for_each() -> None:
    client = opened()
    client.channel()
    header = make_header(10, Properties())
    client.raw(encode_method(1, BasicPublish()) + encode_frame(2, 1, header))
    client.raw(encode_frame(FRAME_BODY, 1, b"") * 1000 + encode_frame(FRAME_BODY, 1, b"x"))
    channels = client.connection._channels
    assert channels is not None
    kept = channels._channels[1].contents._body
    assert kept is not None
    assert bytes(kept) == b"x"
    assert client.broker.unfinished == 1


def test_consumers_of_a_channel_are_given_no_more_than_the_bound_without_acknowledging() -> None:
    room = QueueRoom(channel_unacked_max=10)
    client = room.client()
    client.declare()
    client.publish(*[b"%d" % number for number in range(25)])
    assert len(bodies(client.consume())) == 10
    assert len(bodies(client.say(BasicAck(4, True)))) == 4
    client.consume(tag="d", no_ack=True)
    assert room.queues["q"].ready == 0


def test_a_channel_takes_so_many_consumers_and_the_next_is_refused_in_rabbitmqs_words() -> None:
    room = QueueRoom(channel_consumers_max=2)
    client = room.client()
    client.declare()
    client.consume(tag="a")
    client.consume(tag="b")
    assert client.ask(BasicConsume(queue="q", consumer_tag="c")) == ConnectionClose(
        530, "NOT_ALLOWED - reached maximum (2) of consumers per channel", 60, 20
    )
