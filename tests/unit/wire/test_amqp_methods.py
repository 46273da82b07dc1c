"""The table of methods as a whole, and single ones byte for byte."""

import pytest

from headrace.model.errors import Malformed
from headrace.wire.amqp.control_methods import ConnectionTune
from headrace.wire.amqp.field_kinds import IDS, METHODS
from headrace.wire.amqp.frames import (
    FRAME_BYTES_MIN,
    FrameTooLarge,
    WrongFrameEnd,
    encode_frame,
    frame_bytes,
    walk_frames,
)
from headrace.wire.amqp.methods import UnknownMethod, decode_method, encode_method, name_of
from headrace.wire.amqp.model_methods import BasicConsume, BasicQos, ExchangeUnbindOk, QueueDeclare


def test_the_table_has_all_methods_of_rabbitmq() -> None:
    assert len(METHODS) == len(IDS) == 66
    counts: dict[int, int] = {}
    for ids in METHODS:
        counts[ids.class_id] = counts.get(ids.class_id, 0) + 1
    assert counts == {10: 14, 20: 6, 30: 2, 40: 8, 50: 10, 60: 18, 85: 2, 90: 6}


def test_a_methods_name_is_the_one_of_the_specification() -> None:
    assert name_of(IDS[BasicConsume]) == "basic.consume"
    assert name_of(IDS[ExchangeUnbindOk]) == "exchange.unbind_ok"


@pytest.mark.parametrize(
    ("method", "payload"),
    [
        (
            QueueDeclare(0, "q", False, True, False, True, False, {"a": True}),
            b"\x00\x32\x00\x0a\x00\x00\x01q\x0a\x00\x00\x00\x04\x01at\x01",
        ),
        (BasicQos(1, 2, True), b"\x00\x3c\x00\x0a\x00\x00\x00\x01\x00\x02\x01"),
        (ConnectionTune(2047, 131072, 60), b"\x00\x0a\x00\x1e\x07\xff\x00\x02\x00\x00\x00\x3c"),
    ],
)
def test_a_method_is_these_bytes(method: tuple[object, ...], payload: bytes) -> None:
    assert encode_method(5, method) == encode_frame(1, 5, payload)
    assert decode_method(payload) == method


def test_bits_of_no_field_are_passed_over() -> None:
    assert decode_method(b"\x00\x3c\x00\x0a\x00\x00\x00\x01\x00\x02\xff") == BasicQos(1, 2, True)


@pytest.mark.parametrize("payload", [b"\x00\x3c\x00\xc8", b"\x00\x07\x00\x0a"])
def test_a_method_of_nobody_is_unknown(payload: bytes) -> None:
    with pytest.raises(UnknownMethod):
        decode_method(payload)


def test_a_name_that_is_no_utf_8_is_malformed() -> None:
    with pytest.raises(Malformed, match="UTF-8"):
        decode_method(b"\x00\x32\x00\x0a\x00\x00\x01\xff\x00\x00\x00\x00\x00")


def test_a_value_that_does_not_fit_its_field_is_refused() -> None:
    with pytest.raises(ValueError, match="short"):
        encode_method(0, ConnectionTune(65536, 0, 0))


def test_a_payload_as_large_as_a_frame_is_taken_and_no_larger() -> None:
    wire = encode_frame(3, 1, bytes(FRAME_BYTES_MIN))
    assert len(list(walk_frames(wire, FRAME_BYTES_MIN))) == 1
    with pytest.raises(FrameTooLarge):
        frame_bytes(encode_frame(3, 1, bytes(FRAME_BYTES_MIN + 1)), 0, 7, FRAME_BYTES_MIN)


def test_a_frame_that_ends_with_something_else_is_malformed() -> None:
    with pytest.raises(WrongFrameEnd):
        list(walk_frames(encode_frame(3, 1, b"x")[:-1] + b"\x00", FRAME_BYTES_MIN))
