"""Codecs by hand held against the table of methods, over runs, cuts and flips."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.wire.amqp import hot
from headrace.wire.amqp.content import Message
from headrace.wire.amqp.frames import HEARTBEAT, walk_frames
from headrace.wire.amqp.methods import decode_method, encode_method
from headrace.wire.amqp.model_methods import (
    BasicAck,
    BasicDeliver,
    BasicGetOk,
    BasicNack,
    BasicReject,
    BasicReturn,
)
from headrace.wire.amqp.properties import Properties
from tests.support.amqp.messages import message, publish_frames

FRAME_MAX = 131_072
RAW_NAMES = st.binary(max_size=12).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
MESSAGES = st.builds(
    message,
    body=st.binary(max_size=40),
    exchange=st.sampled_from(["", "orders"]) | RAW_NAMES,
    routing_key=st.sampled_from(["", "created"]) | RAW_NAMES,
    properties=st.sampled_from([Properties(), Properties("text/plain", headers={"a": 1})]),
)
ONE_BEHIND = st.sampled_from([b"", HEARTBEAT, encode_method(1, BasicAck(1)), b"\x01\x00"])


def told(given_message: Message) -> tuple[str, str, bytes, bytes]:
    """Return what a message is."""
    return (
        given_message.exchange,
        given_message.routing_key,
        given_message.header,
        given_message.body,
    )


@given(st.lists(MESSAGES, min_size=1, max_size=6), st.integers(0, 3), ONE_BEHIND)
def test_a_run_of_publishes_is_read_up_to_what_is_none(
    messages: list[Message], flags: int, behind: bytes
) -> None:
    frames = b"".join(publish_frames(9, published, flags) for published in messages)
    data = b"before" + frames + behind
    end, run = hot.decode_publishes(data, 6, len(data), FRAME_MAX)
    assert end == 6 + len(frames)
    assert run is not None
    assert (run.channel, run.flags) == (9, flags)
    assert [*map(told, run.messages)] == [*map(told, messages)]


@given(st.lists(st.tuples(MESSAGES, st.integers(0, 1), st.integers(1, 2)), max_size=6))
def test_a_run_ends_where_channel_or_flags_change(
    published: list[tuple[Message, int, int]],
) -> None:
    data = b"".join(publish_frames(channel, sent, flags) for sent, flags, channel in published)
    at, read = 0, []
    while at < len(data):
        at, run = hot.decode_publishes(data, at, len(data), FRAME_MAX)
        assert run is not None
        read += [(told(sent), run.flags, run.channel) for sent in run.messages]
    assert read == [(told(sent), flags, channel) for sent, flags, channel in published]


@given(st.lists(MESSAGES, min_size=1, max_size=3), st.data())
def test_a_cut_run_gives_what_is_whole(messages: list[Message], data: st.DataObject) -> None:
    pieces = [publish_frames(9, published) for published in messages]
    wire = b"".join(pieces)
    cut = data.draw(st.integers(0, len(wire)))
    whole, size = 0, 0
    for piece in pieces:
        if size + len(piece) > cut:
            break
        whole, size = whole + 1, size + len(piece)
    for seen in (wire[:cut], wire):
        # Bytes behind `end` are another's, or of the read before.
        end, run = hot.decode_publishes(seen, 0, cut, FRAME_MAX)
        assert end == size
        assert (0 if run is None else len(run.messages)) == whole


@given(st.lists(MESSAGES, min_size=1, max_size=3), st.data())
def test_what_is_read_of_a_flipped_run_is_what_its_frames_say(
    messages: list[Message], data: st.DataObject
) -> None:
    wire = bytearray(b"".join(publish_frames(9, published) for published in messages))
    for _ in range(data.draw(st.integers(1, 3))):
        wire[data.draw(st.integers(0, len(wire) - 1))] = data.draw(st.integers(0, 255))
    flipped = bytes(wire)
    end, run = hot.decode_publishes(flipped, 0, len(flipped), FRAME_MAX)
    if run is not None:
        again = b"".join(publish_frames(run.channel, sent, run.flags) for sent in run.messages)
        # The ticket and the unused bits are not kept, but every frame is where it was.
        assert len(again) == end
        for ours, theirs in zip(
            walk_frames(again, FRAME_MAX), walk_frames(flipped[:end], FRAME_MAX), strict=True
        ):
            assert ours.kind == theirs.kind
            assert ours.kind == 1 or ours.payload == theirs.payload


def test_what_is_larger_than_negotiated_ends_a_run() -> None:
    small, large = message(b"x" * 4088), message(b"x" * 4089)
    wire = publish_frames(1, small) + publish_frames(1, large)
    end, run = hot.decode_publishes(wire, 0, len(wire), 4096)
    assert run is not None
    assert [len(sent.body) for sent in run.messages] == [4088]
    assert end == len(publish_frames(1, small))


TAGS = st.integers(0, (1 << 64) - 1)
SETTLEMENTS = st.one_of(
    st.builds(BasicAck, TAGS, st.booleans()),
    st.builds(BasicNack, TAGS, st.booleans(), st.booleans()),
    st.builds(BasicReject, TAGS, st.booleans()),
)


@given(st.lists(SETTLEMENTS, max_size=6), ONE_BEHIND.filter(lambda behind: behind[:1] != b"\x01"))
def test_a_run_of_settlements_is_read_up_to_what_is_none(
    methods: list[BasicAck | BasicNack | BasicReject], behind: bytes
) -> None:
    frames = b"".join(encode_method(2, method) for method in methods)
    end, channel, settled = hot.decode_settlements(frames + behind, 0, len(frames + behind))
    assert end == len(frames)
    assert channel == (2 if methods else -1)
    for method, settlement in zip(methods, settled, strict=True):
        assert settlement.delivery_tag == method.delivery_tag
        assert settlement.multiple == getattr(method, "multiple", False)
        assert settlement.requeue == getattr(method, "requeue", None)


@given(MESSAGES, TAGS, st.booleans(), st.integers(4096, 4100), st.integers(0, 9000))
def test_what_goes_out_is_what_the_table_of_methods_says(
    sent: Message, tag: int, redelivered: bool, frame_max: int, body_bytes: int
) -> None:
    sent = Message(sent.exchange, sent.routing_key, sent.header, b"b" * body_bytes)
    encoder = hot.DeliverEncoder(7, "ctag", frame_max)
    exchange, key = sent.exchange, sent.routing_key
    deliver = BasicDeliver("ctag", tag, redelivered, exchange, key)
    get_ok = BasicGetOk(tag, redelivered, exchange, key, 12)
    returned = BasicReturn(312, "NO_ROUTE", exchange, key)
    for wire, method in (
        (encoder.encode(tag, redelivered, sent), deliver),
        (encoder.encode(tag, redelivered, sent), deliver),
        (hot.encode_get_ok(7, tag, redelivered, sent, 12, frame_max), get_ok),
        (hot.encode_return(7, 312, "NO_ROUTE", sent, frame_max), returned),
    ):
        expected = encode_method(7, method)
        assert wire.startswith(expected)
        frames = list(walk_frames(wire, frame_max))
        assert [frame.channel for frame in frames] == [7] * len(frames)
        assert all(len(frame.payload) + 8 <= frame_max for frame in frames)
        assert frames[1].payload == sent.header
        assert b"".join(frame.payload for frame in frames[2:]) == sent.body


@given(TAGS, st.booleans())
def test_confirms_are_what_the_table_of_methods_says(tag: int, multiple: bool) -> None:
    assert hot.encode_ack(3, tag, multiple) == encode_method(3, BasicAck(tag, multiple))
    assert hot.encode_nack(3, tag, multiple) == encode_method(3, BasicNack(tag, multiple, False))
    assert decode_method(hot.encode_ack(3, tag, multiple)[7:-1]) == BasicAck(tag, multiple)
