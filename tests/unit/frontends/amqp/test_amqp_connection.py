"""An open connection: heartbeats, channels, contents, and how each error closes what."""

import pytest

from headrace.frontends.amqp.connection.connection_state import CLOSE_S_MAX, SILENT_CLOSE_S
from headrace.wire.amqp.control_methods import (
    AccessRequest,
    AccessRequestOk,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionTune,
    ConnectionUnblocked,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
)
from headrace.wire.amqp.field_kinds import IDS
from headrace.wire.amqp.frames import (
    FRAME_BODY,
    FRAME_HEADER,
    FRAME_METHOD,
    HEARTBEAT,
    encode_frame,
)
from headrace.wire.amqp.methods import encode_method
from headrace.wire.amqp.model_methods import (
    BasicAck,
    BasicDeliver,
    BasicPublish,
    QueueDeclare,
    QueueDeclareOk,
)
from headrace.wire.amqp.properties import make_header
from headrace.wire.amqp.reply_codes import ChannelClosing, ConnectionClosing, ReplyCode
from tests.support.amqp.kit import opened
from tests.support.amqp.messages import message, publish_frames

NO_QUEUE = ChannelClosing(ReplyCode.NOT_FOUND, "no queue 'q' in vhost '/'")
TOLD_NO_QUEUE = ChannelClose(404, "NOT_FOUND - no queue 'q' in vhost '/'", 50, 10)


def test_a_heartbeat_is_sent_when_nothing_else_was_for_half_the_interval() -> None:
    client = opened(heartbeat=60)
    client.sent = b""
    client.wait(29.9)
    assert client.sent == b""
    client.wait(0.1)
    assert client.sent == HEARTBEAT
    client.raw(HEARTBEAT)
    client.channel()
    client.sent = b""
    client.wait(29.9)
    assert client.sent == b""


def test_two_intervals_of_silence_end_a_connection_and_any_byte_is_none() -> None:
    client = opened(heartbeat=10)
    for _ in range(5):
        client.wait(15)
        client.raw(HEARTBEAT)
    client.wait(19.9)
    assert not client.over()
    client.wait(0.1)
    assert client.over()
    assert client.connection.reason == "missed heartbeats from client, timeout: 10s"
    assert client.broker.host_gone


@pytest.mark.parametrize("interval", [1, 59, 61, 65_535])
def test_the_clients_interval_is_the_one_that_holds(interval: int) -> None:
    client = opened(heartbeat=interval)
    client.wait(2 * interval - 0.001)
    assert not client.over()
    client.wait(0.001)
    assert client.over()


def test_part_of_a_frame_is_a_sign_of_life() -> None:
    client = opened(heartbeat=10)
    client.wait(19.5)
    client.raw(HEARTBEAT[:3])
    client.wait(19.5)
    assert not client.over()
    client.wait(0.5)
    assert client.over()


def test_no_heartbeat_was_agreed_on_and_silence_lasts() -> None:
    client = opened(heartbeat=0)
    client.sent = b""
    client.wait(100_000)
    assert not client.over()
    assert client.sent == b""
    assert client.connection.deadline is None


def test_a_client_closes_its_connection() -> None:
    client = opened()
    channel = client.channel()
    assert client.say(ConnectionClose(200, "bye", 0, 0)) == [ConnectionCloseOk()]
    assert channel.gone
    assert client.broker.host_gone
    assert client.connection.reason is None
    client.wait(CLOSE_S_MAX)
    assert client.over()


def test_a_close_from_our_side_waits_for_its_answer_and_no_longer_than_so_long() -> None:
    client = opened(heartbeat=0)
    client.connection.close("broker forced connection closure with reason 'shutdown'")
    (close,) = client.heard()
    assert isinstance(close, ConnectionClose)
    assert close.reply_code == 320
    assert client.say(ChannelOpen(), channel=1) == []
    assert client.say(ConnectionClose(200, "", 0, 0)) == [ConnectionCloseOk()]
    client.wait(CLOSE_S_MAX - 0.1)
    assert not client.over()
    client.wait(0.1)
    assert client.over()


def test_a_channel_opens_asks_answers_and_closes() -> None:
    client = opened()
    assert client.say(ChannelOpen(), channel=7) == [ChannelOpenOk()]
    (channel,) = client.broker.channels
    declare = QueueDeclare(0, "q")
    client.say(declare, channel=7)
    assert channel.methods == [declare]
    channel.outlet.answer(QueueDeclareOk("q", 0, 0))
    assert client.heard_on() == [(7, QueueDeclareOk("q", 0, 0))]
    assert client.say(ChannelClose(200, "", 0, 0), channel=7) == [ChannelCloseOk()]
    assert channel.gone
    channel.outlet.answer(QueueDeclareOk("q", 0, 0))
    assert client.heard() == []
    assert client.say(ChannelOpen(), channel=7) == [ChannelOpenOk()]


def test_flow_and_access_are_answered_as_rabbitmq_does() -> None:
    client = opened()
    client.channel()
    assert client.say(ChannelFlow(True), channel=1) == [ChannelFlowOk(True)]
    assert client.say(AccessRequest(), channel=1) == [AccessRequestOk(1)]
    said = client.say(ChannelFlow(False), channel=1)
    assert said == [ConnectionClose(540, "NOT_IMPLEMENTED - active=false", 20, 20)]


def test_an_error_closes_the_channel_and_what_comes_until_the_answer_is_passed_over() -> None:
    client = opened()
    other = client.channel(2)
    channel = client.channel(1)
    channel.raises = NO_QUEUE
    assert client.say(QueueDeclare(), QueueDeclare(), channel=1) == [TOLD_NO_QUEUE]
    assert channel.gone
    client.raw(publish_frames(1, message(b"lost")) + publish_frames(2, message(b"kept")))
    client.raw(encode_method(1, BasicAck(1)))
    assert (channel.runs, channel.settled, channel.methods) == ([], [], [])
    assert [sent.body for run in other.runs for sent in run.messages] == [b"kept"]
    assert client.say(ChannelCloseOk(), channel=1) == []
    assert client.say(ChannelOpen(), channel=1) == [ChannelOpenOk()]


def test_both_sides_close_a_channel_at_once() -> None:
    client = opened()
    client.channel().raises = NO_QUEUE
    client.say(QueueDeclare(), channel=1)
    assert client.say(ChannelClose(200, "", 0, 0), channel=1) == [ChannelCloseOk()]
    client.say(ChannelCloseOk(), channel=1)
    assert client.say(ChannelOpen(), channel=1) == [ChannelOpenOk()]


def test_an_error_that_is_known_later_closes_the_channel_then() -> None:
    client = opened()
    channel = client.channel()
    client.say(QueueDeclare(), channel=1)
    channel.outlet.fail(NO_QUEUE, IDS[QueueDeclare])
    assert client.heard() == [TOLD_NO_QUEUE]
    channel.outlet.fail(NO_QUEUE, IDS[QueueDeclare])
    assert client.heard() == []


@pytest.mark.parametrize("later", [False, True])
def test_an_error_of_the_connection_closes_it(later: bool) -> None:
    client = opened()
    channel = client.channel()
    error = ConnectionClosing(ReplyCode.NOT_IMPLEMENTED, "immediate=true")
    if later:
        channel.outlet.fail(error, IDS[BasicPublish])
    else:
        channel.raises = error
        client.raw(publish_frames(1, message()))
    assert client.heard() == [ConnectionClose(540, "NOT_IMPLEMENTED - immediate=true", 60, 40)]
    assert channel.gone


LONG = b"\x00\x3c" + bytes(30)


@pytest.mark.parametrize(
    ("wire", "code", "text", "ids"),
    [
        (
            encode_method(1, QueueDeclare()),
            504,
            "CHANNEL_ERROR - expected 'channel.open'",
            (50, 10),
        ),
        (
            encode_method(2, ChannelOpen()),
            504,
            "CHANNEL_ERROR - second 'channel.open' seen",
            (20, 10),
        ),
        (
            encode_method(2, BasicDeliver("", 1, False, "", "")),
            503,
            "COMMAND_INVALID - unimplemented method",
            (60, 60),
        ),
        (
            encode_method(0, ConnectionTune(1, 1, 1)),
            504,
            "CHANNEL_ERROR - unexpected method in connection state running",
            (10, 30),
        ),
        (
            encode_frame(FRAME_METHOD, 2, b"\x00\x3c\x03\xe8"),
            503,
            "COMMAND_INVALID - unknown method {60,1000}",
            (60, 1000),
        ),
        (
            encode_frame(FRAME_METHOD, 2, b"\x00\x32\x00\x0a\x00"),
            501,
            "FRAME_ERROR - cannot decode <<0>>",
            (50, 10),
        ),
        (
            encode_frame(FRAME_HEADER, 2, make_header(0)),
            505,
            "UNEXPECTED_FRAME - expected method frame, got non method frame instead",
            (0, 0),
        ),
        (
            encode_frame(FRAME_BODY, 0, b"hello"),
            505,
            'UNEXPECTED_FRAME - type 3, all octets = <<"hello">>',
            (0, 0),
        ),
        (
            encode_frame(8, 2, b""),
            505,
            "UNEXPECTED_FRAME - type 8, all octets = <<>>",
            (0, 0),
        ),
        (
            encode_frame(9, 2, LONG),
            501,
            f"FRAME_ERROR - type 9, first 16 octets = <<0,60{',0' * 14}>>: unknown_frame",
            (0, 0),
        ),
        (
            encode_frame(FRAME_METHOD, 2, b"abc")[:-1] + b"\x07",
            501,
            'FRAME_ERROR - type 1, all octets = <<"abc">>: {invalid_frame_end_marker,7}',
            (0, 0),
        ),
        (
            b"\x03\x00\x02\x00\x10\x00\x00",
            501,
            "FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,1048576,131064}",
            (0, 0),
        ),
    ],
)
def test_what_may_not_come_closes_the_connection_with_rabbitmqs_words(
    wire: bytes, code: int, text: str, ids: tuple[int, int]
) -> None:
    client = opened()
    client.channel(2)
    client.raw(wire)
    assert client.heard() == [ConnectionClose(code, text, *ids)]
    client.say(ConnectionCloseOk())
    client.wait(SILENT_CLOSE_S)
    assert client.over()


def test_more_channels_than_were_agreed_on_close_the_connection() -> None:
    client = opened(channel_max=2)
    client.channel(1)
    client.channel(9)
    text = "NOT_ALLOWED - number of channels opened (2) has reached the negotiated channel_max (2)"
    assert client.say(ChannelOpen(), channel=3) == [ConnectionClose(530, text, 0, 0)]


def test_a_text_that_is_too_long_ends_with_dots() -> None:
    client = opened()
    client.channel().raises = ChannelClosing(ReplyCode.NOT_FOUND, "ü" * 200)
    (close,) = client.say(QueueDeclare(), channel=1)
    assert isinstance(close, ChannelClose)
    assert len(close.reply_text.encode()) <= 255
    assert close.reply_text.endswith("ü...")


def test_settlements_come_in_their_order_in_whatever_form() -> None:
    client = opened()
    channel = client.channel()
    client.raw(b"".join(encode_method(1, BasicAck(tag, tag == 2)) for tag in (1, 2)))
    assert [(s.delivery_tag, s.multiple) for s in channel.settled] == [(1, False), (2, True)]


def test_a_new_secret_is_taken_or_closes_the_connection() -> None:
    client = opened()
    said = client.say(ConnectionUpdateSecret(b"fresh", "old one ends"))
    assert said == [ConnectionUpdateSecretOk()]
    assert client.broker.secrets == ["fresh"]
    text = "NOT_ALLOWED - New secret was refused by one of the backends"
    said = client.say(ConnectionUpdateSecret(b"wrong", ""))
    assert said == [ConnectionClose(530, text, 10, 70)]


def test_a_client_that_publishes_is_told_that_there_is_no_room_and_when_there_is() -> None:
    client = opened(heartbeat=10)
    client.channel()
    client.connection.block("low on disk")
    assert client.heard() == []
    assert not client.held()
    client.raw(publish_frames(1, message()) * 2)
    assert client.heard() == [ConnectionBlocked("low on disk")]
    assert client.held()
    client.wait(100)
    assert not client.over()
    client.connection.unblock(client.now)
    assert client.heard() == [ConnectionUnblocked()]
    assert not client.held()
    client.wait(19)
    assert not client.over()
    client.wait(1)
    assert client.over()
