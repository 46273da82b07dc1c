"""Contents put together from frames: bodies in pieces, out of order, too large."""

import pytest

from headrace.wire.amqp.control_methods import (
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
)
from headrace.wire.amqp.field_kinds import IDS
from headrace.wire.amqp.frames import (
    FRAME_BODY,
    FRAME_HEADER,
    HEARTBEAT,
    encode_frame,
)
from headrace.wire.amqp.methods import encode_method
from headrace.wire.amqp.model_methods import (
    BasicPublish,
    QueueDeclare,
)
from headrace.wire.amqp.properties import make_header
from headrace.wire.amqp.reply_codes import ChannelClosing, ReplyCode
from tests.support.amqp.kit import Client, opened
from tests.support.amqp.messages import message, publish_frames

NO_QUEUE = ChannelClosing(ReplyCode.NOT_FOUND, "no queue 'q' in vhost '/'")
TOLD_NO_QUEUE = ChannelClose(404, "NOT_FOUND - no queue 'q' in vhost '/'", 50, 10)
CONTENT = encode_method(1, BasicPublish(0, "", "q"))


def test_an_error_amid_a_content_keeps_nothing_of_it() -> None:
    client = opened()
    channel = client.channel()
    wire = publish_frames(1, message(bytes(5000)), frame_bytes_max=4096)
    client.raw(wire[:-1000])
    held = client.connection._channels
    assert held is not None
    channel.outlet.fail(NO_QUEUE, IDS[QueueDeclare])
    assert held._channels[1].contents._body is None
    client.raw(wire[-1000:])
    assert client.heard() == [TOLD_NO_QUEUE]
    assert channel.runs == []
    client.say(ChannelCloseOk(), channel=1)
    assert client.say(ChannelOpen(), channel=1) == [ChannelOpenOk()]


def test_of_what_comes_on_a_channel_that_is_being_closed_nothing_is_kept_or_refused_again() -> None:
    client = opened()
    channel = client.channel()
    channel.outlet.fail(NO_QUEUE, IDS[QueueDeclare])
    assert client.heard() == [TOLD_NO_QUEUE]
    for size in (5000, 17 << 20):
        client.raw(CONTENT + encode_frame(FRAME_HEADER, 1, make_header(size)))
        client.raw(encode_frame(FRAME_BODY, 1, bytes(4000)))
        assert client.broker.unfinished == 0
        client.raw(encode_frame(FRAME_BODY, 1, bytes(1000)) * ((size - 4000) // 1000))
        rest = (size - 4000) % 1000
        client.raw(encode_frame(FRAME_BODY, 1, bytes(rest)) if rest else b"")
    assert client.heard() == []
    client.say(ChannelCloseOk(), channel=1)
    assert client.say(ChannelOpen(), channel=1) == [ChannelOpenOk()]


@pytest.mark.parametrize(
    ("wire", "code", "text"),
    [
        (
            encode_method(1, QueueDeclare()),
            505,
            "expected content header for class 60, got non content header frame instead",
        ),
        (
            encode_frame(FRAME_HEADER, 1, b"\x00\x32" + make_header(1)[2:]),
            505,
            "expected content header for class 60, got one for class 50 instead",
        ),
        (
            encode_frame(FRAME_HEADER, 1, make_header(1)) + encode_method(1, QueueDeclare()),
            505,
            "expected content body, got non content body frame instead",
        ),
        (
            encode_frame(FRAME_HEADER, 1, make_header(1)) + encode_frame(FRAME_BODY, 1, b"ab"),
            501,
            "content body frame exceeds remaining content size",
        ),
        (
            encode_frame(FRAME_HEADER, 1, make_header((512 << 20) + 1)),
            501,
            "content body size 536870913 exceeds maximum allowed size 536870912",
        ),
    ],
)
def test_a_content_out_of_order_closes_the_connection(wire: bytes, code: int, text: str) -> None:
    client = opened()
    client.channel()
    client.raw(CONTENT + wire)
    name = ReplyCode(code).name
    assert client.heard() == [ConnectionClose(code, f"{name} - {text}", 60, 40)]


def test_a_body_of_several_frames_among_those_of_another_channel_is_one_message() -> None:
    client = opened()
    one, two = client.channel(1), client.channel(2)
    body = bytes(range(256)) * 40
    sent = message(body, "x", "key")
    pieces = [body[:1], b"", body[1:5000], body[5000:]]
    client.raw(encode_method(1, BasicPublish(0, "x", "key", True)))
    client.raw(encode_frame(FRAME_HEADER, 1, sent.header))
    for piece in pieces:
        client.raw(encode_frame(FRAME_BODY, 1, piece) + HEARTBEAT)
        client.raw(publish_frames(2, message(b"other")))
    (run,) = one.runs
    (got,) = run.messages
    assert (run.flags, got.exchange, got.routing_key) == (1, "x", "key")
    assert (got.header, got.body) == (sent.header, body)
    assert len(two.runs) == len(pieces)


def test_a_body_larger_than_is_kept_closes_the_channel_and_the_rest_is_passed_over() -> None:
    client = Client(message_bytes_max=10)
    client.open()
    channel = client.channel()
    client.raw(publish_frames(1, message(b"x" * 10)) + publish_frames(1, message(b"x" * 11)))
    text = "PRECONDITION_FAILED - message size 11 is larger than configured max size 10"
    assert client.heard() == [ChannelClose(406, text, 60, 40)]
    assert [len(sent.body) for run in channel.runs for sent in run.messages] == [10]
    client.say(ChannelCloseOk(), channel=1)
    assert client.say(ChannelOpen(), channel=1) == [ChannelOpenOk()]
