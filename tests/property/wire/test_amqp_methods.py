"""Every method there and back; hostile bytes give Malformed and nothing else."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.errors import Malformed
from headrace.wire.amqp.frames import FRAME_METHOD, frame_at, walk_frames
from headrace.wire.amqp.methods import METHODS, Method, decode_method, encode_method
from tests.support.amqp.messages import any_method, methods
from tests.support.examples import examples


@pytest.mark.parametrize("kind", METHODS.values(), ids=lambda kind: kind.__name__)
@settings(max_examples=examples(15))
@given(data=st.data())
def test_a_method_comes_back(kind: type, data: st.DataObject) -> None:
    method = data.draw(methods(kind))
    channel = data.draw(st.integers(0, 65535))
    frame = frame_at(encode_method(channel, method), 0)
    back = decode_method(frame.payload)
    assert (frame.kind, frame.channel) == (FRAME_METHOD, channel)
    assert (type(back), back) == (kind, method)


@given(any_method, st.data())
def test_a_cut_method_is_malformed(method: Method, data: st.DataObject) -> None:
    payload = frame_at(encode_method(1, method), 0).payload
    cut = payload[: data.draw(st.integers(0, len(payload) - 1))]
    with pytest.raises(Malformed):
        decode_method(cut)


@given(any_method, st.binary(min_size=1, max_size=3))
def test_bytes_behind_a_method_are_malformed(method: Method, more: bytes) -> None:
    with pytest.raises(Malformed):
        decode_method(frame_at(encode_method(1, method), 0).payload + more)


@given(any_method, st.data())
def test_a_flipped_method_is_malformed_or_another_method(
    method: Method, data: st.DataObject
) -> None:
    payload = bytearray(frame_at(encode_method(1, method), 0).payload)
    for _ in range(data.draw(st.integers(1, 3))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(Malformed):
        decode_method(bytes(payload))


@given(st.binary(max_size=200))
def test_any_bytes_are_frames_or_malformed(data: bytes) -> None:
    with contextlib.suppress(Malformed):
        taken = sum(8 + len(frame.payload) for frame in walk_frames(data, 4096))
        assert taken <= len(data)
