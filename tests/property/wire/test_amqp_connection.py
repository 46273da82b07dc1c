"""A connection that is cut anywhere behaves as one that is not, and hostile bytes only end it."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from headrace.wire.amqp.control_methods import ChannelClose, ChannelOpen, ConnectionClose
from headrace.wire.amqp.methods import Method, encode_method
from headrace.wire.amqp.model_methods import BasicAck, QueueDeclare
from tests.support.amqp.kit import Client, opened
from tests.support.amqp.messages import any_method, message, publish_frames

SCRIPT = b"".join(
    (
        encode_method(1, ChannelOpen()),
        publish_frames(1, message(b"first")),
        publish_frames(1, message(bytes(10_000)), frame_bytes_max=4096),
        encode_method(1, BasicAck(1)) + encode_method(1, BasicAck(2, True)),
        encode_method(1, QueueDeclare(0, "q")),
        encode_method(2, ChannelOpen()),
        publish_frames(2, message(b"", "x"), 3),
        encode_method(1, ChannelClose(200, "", 0, 0)),
        encode_method(0, ConnectionClose(200, "", 0, 0)),
    )
)


def told(client: Client) -> list[object]:
    """Return all that came to the model, run for run taken apart."""
    return [
        (
            [(run.flags, sent.header, sent.body) for run in channel.runs for sent in run.messages],
            channel.settled,
            channel.methods,
            channel.gone,
        )
        for channel in client.broker.channels
    ]


@given(st.lists(st.integers(0, len(SCRIPT)), max_size=8))
def test_where_the_bytes_are_cut_changes_nothing(cuts: list[int]) -> None:
    whole, cut = opened(), opened()
    whole.raw(SCRIPT)
    edges = sorted({0, len(SCRIPT), *cuts})
    for begin, end in itertools.pairwise(edges):
        cut.raw(SCRIPT[begin:end])
    assert told(cut) == told(whole)
    assert cut.sent == whole.sent


@given(st.data())
def test_flipped_bytes_end_the_connection_at_most(data: st.DataObject) -> None:
    wire = bytearray(SCRIPT)
    for _ in range(data.draw(st.integers(1, 4))):
        wire[data.draw(st.integers(0, len(wire) - 1))] = data.draw(st.integers(0, 255))
    client = opened()
    client.raw(bytes(wire))
    client.heard()
    client.wait(1000)
    assert client.connection.ended
    assert client.broker.host_gone
    assert all(channel.gone for channel in client.broker.channels)


@given(st.lists(st.tuples(st.integers(0, 3), any_method), max_size=8))
def test_any_methods_in_any_order_are_answered_or_end_the_connection(
    said: list[tuple[int, Method]],
) -> None:
    client = opened()
    client.raw(b"".join(encode_method(channel, method) for channel, method in said))
    client.heard()
    client.wait(1000)
    assert client.connection.ended


@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_instead_of_a_handshake_end_the_connection(data: bytes, header: bool) -> None:
    client = Client()
    if header:
        client.begin()
    client.raw(data)
    client.wait(1000)
    assert client.connection.ended
    assert client.broker.channels == []
