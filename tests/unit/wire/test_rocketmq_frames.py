"""Remoting frames and headers: cut, refused at once, and read whatever a client writes."""

import json
import struct
from typing import Any

import pytest

from headrace.model.errors import Malformed
from headrace.wire.rocketmq.commands import (
    CommandFlag,
    RemotingCommand,
    decode_command,
    encode_command,
)
from headrace.wire.rocketmq.frames import (
    FRAME_LENGTH_MAX,
    HEADER_BYTES_MAX,
    Serialization,
    frame_at,
    frame_bytes,
    frame_head,
)

JSON, BINARY = Serialization.JSON, Serialization.BINARY


def decoded(header: Any) -> RemotingCommand:
    """Return the command of a JSON header, given as a value or as bytes."""
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return decode_command(JSON, raw, b"")


@pytest.mark.parametrize("serialization", Serialization)
def test_a_command_returns_from_its_frame(serialization: Serialization) -> None:
    command = RemotingCommand(
        310, 7, CommandFlag.ONE_WAY, {"b": "größe", "i": "A\x01b\x02"}, b"body", "why\n", "GO", 317
    )
    raw = b"".join(encode_command(command, serialization))
    assert frame_bytes(raw, 0, len(raw)) == len(raw)
    frame = frame_at(memoryview(raw), 0)
    assert frame.serialization is serialization
    assert decode_command(serialization, frame.header, bytes(frame.body)) == command


def test_a_second_frame_is_cut_behind_the_first() -> None:
    first, second = (b"".join(encode_command(RemotingCommand(n, n, body=b"x" * n))) for n in (3, 5))
    data = b"left" + first + second
    size = frame_bytes(data, 4, len(data))
    assert size == len(first)
    frame = frame_at(memoryview(data), 4 + size)
    assert decode_command(JSON, frame.header, frame.body).code == 5
    assert bytes(frame.body) == b"xxxxx"


def test_the_size_of_an_unfinished_frame_is_known_from_four_bytes() -> None:
    head = frame_head(JSON, 10, 20)
    assert frame_bytes(head, 0, 3) == 0
    assert frame_bytes(head, 0, 4) == frame_bytes(head, 0, 8) == 38
    assert frame_bytes(head, 1, 4) == 0


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("length 0", struct.pack(">i", 0)),
        ("length 3", struct.pack(">i", 3)),
        ("negative length", struct.pack(">i", -5)),
        ("above 16 MiB", struct.pack(">i", FRAME_LENGTH_MAX + 1)),
        ("HTTP", b"GET / HTTP/1.0\r\n\r\n"),
        ("header longer than its frame", struct.pack(">ii", 8, 5)),
        ("header empty", struct.pack(">ii", 8, 0)),
        ("header of kind 7", struct.pack(">iI", 10, 7 << 24 | 6)),
        ("header above 1 MiB", struct.pack(">ii", 1 << 22, HEADER_BYTES_MAX + 1)),
    ],
)
def test_a_broken_frame_is_refused_by_its_first_bytes(name: str, head: bytes) -> None:
    with pytest.raises(Malformed):
        frame_bytes(head, 0, len(head))


def test_the_largest_frame_and_the_largest_header_are_accepted() -> None:
    assert FRAME_LENGTH_MAX == 1 << 24, "as RocketMQ's"
    head = struct.pack(">ii", FRAME_LENGTH_MAX, HEADER_BYTES_MAX)
    assert frame_bytes(head, 0, 8) == FRAME_LENGTH_MAX + 4
    assert frame_bytes(struct.pack(">ii", 8, 4), 0, 8) == 12
    assert frame_head(JSON, 10, FRAME_LENGTH_MAX - 14)
    with pytest.raises(ValueError, match="a frame of"):
        frame_head(JSON, 10, FRAME_LENGTH_MAX - 13)
    for size in (HEADER_BYTES_MAX + 1, 0):
        with pytest.raises(ValueError, match="a header of"):
            frame_head(JSON, size, 0)


def test_numbers_and_booleans_in_fields_are_read_as_text() -> None:
    command = decoded(
        {"code": 10, "extFields": {"queueId": 0, "k": False, "m": True, "gone": None, "x": "1"}}
    )
    assert command.fields == {"queueId": "0", "k": "false", "m": "true", "x": "1"}


def test_integers_are_read_to_the_ends_of_their_range() -> None:
    least, most = -(1 << 31), (1 << 31) - 1
    assert decoded({"code": least, "opaque": most}) == RemotingCommand(
        least, most, language="OTHER", version=0
    )


def test_fields_that_are_missing_differ_from_no_fields() -> None:
    assert decoded({"code": 1}).fields is None
    assert decoded({"code": 1, "extFields": {}}).fields == {}
    assert b'"extFields"' not in encode_command(RemotingCommand(0, 1))[0]
    assert b'"extFields":{}' in encode_command(RemotingCommand(0, 1, fields={}))[0]


def test_half_a_surrogate_pair_is_written_as_a_question_mark() -> None:
    command = decoded(b'{"code":1,"extFields":{"i":"\\ud800"}}')
    assert b'"i":"?"' in encode_command(command)[0]
    assert bytes(encode_command(command, BINARY)[0]).endswith(b"\x00\x01i\x00\x00\x00\x01?")


@pytest.mark.parametrize(
    "header",
    [
        b"{nope}",
        b"[]",
        b"7",
        b"",
        b"\xff{}",
        b'{"code":NaN}',
        b'{"code":' + b"9" * 5000 + b"}",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        {"code": "10"},
        {"code": True},
        {"code": 1.5},
        {"code": 1 << 31},
        {"opaque": -(1 << 31) - 1},
        {"flag": None},
        {"version": []},
        {"remark": 7},
        {"language": {}},
        {"extFields": []},
        {"extFields": "text"},
        {"extFields": {"a": []}},
        {"extFields": {"a": {}}},
    ],
)
def test_a_header_that_is_no_command_is_malformed(header: Any) -> None:
    with pytest.raises(Malformed):
        decoded(header)


BINARY_HEAD = struct.pack(">hBhii", 11, 0, 513, 5, 0)


@pytest.mark.parametrize(
    "rest",
    [
        b"",
        struct.pack(">i", 1),
        struct.pack(">i", -1),
        struct.pack(">ii", 0, 1),
        struct.pack(">ii", 0, -1),
        struct.pack(">ii", 0, 0) + b"x",
        struct.pack(">iih", 0, 2, 1),
        struct.pack(">iih", 0, 2, -1),
        struct.pack(">iih", 0, 3, 1) + b"a",
        struct.pack(">iih", 0, 7, 1) + b"a" + struct.pack(">i", 1),
        struct.pack(">iih", 0, 8, 1) + b"\xff" + struct.pack(">i", 1) + b"x",
        struct.pack(">i", 1) + b"\xff" + struct.pack(">i", 0),
    ],
)
def test_a_binary_header_that_does_not_end_where_it_says_is_malformed(rest: bytes) -> None:
    with pytest.raises(Malformed):
        decode_command(BINARY, BINARY_HEAD + rest, b"")


def test_a_language_without_a_name_is_read_as_other() -> None:
    header = struct.pack(">hBhiiii", 11, 99, 513, 5, 0, 0, 0)
    assert decode_command(BINARY, header, b"").language == "OTHER"
    assert decoded({"code": 1}).language == "OTHER"
    assert decoded({"code": 1, "language": "KLINGON"}).language == "KLINGON"
    raw = encode_command(RemotingCommand(1, 2, language="KLINGON"), BINARY)[0]
    assert decode_command(BINARY, raw[8:], b"").language == "OTHER"


@pytest.mark.parametrize("code", [1 << 15, 200050, -(1 << 15) - 1])
def test_a_code_of_more_than_16_bits_has_no_binary_form(code: int) -> None:
    with pytest.raises(ValueError, match="16 bits"):
        encode_command(RemotingCommand(code, 1), BINARY)
    assert encode_command(RemotingCommand(code, 1))
