"""Stored messages, batches, properties and message ids at their edges."""

import contextlib
import struct
import zlib

import pytest

from headrace.model.errors import Malformed
from headrace.wire.rocketmq.batch_bodies import (
    MESSAGES_MAX,
    BatchedMessage,
    decode_batch,
    encode_batch,
)
from headrace.wire.rocketmq.message_ids import (
    OFFSET_MAX,
    PARTITION_NUMBER_MAX,
    PlaceInCluster,
    host_bytes,
    message_id,
    physical_offset,
    physical_offset_of,
    place_of,
)
from headrace.wire.rocketmq.properties import (
    closed,
    decode_properties,
    encode_properties,
    find_property,
)
from headrace.wire.rocketmq.stored_messages import (
    MAGIC_V1,
    MAGIC_V2,
    PulledMessage,
    decode_message,
    decode_messages,
    encode_message,
)

V4 = host_bytes("127.0.0.1", 10911)
V6 = host_bytes("2001:db8::1", 10911)


def message(**fields: object) -> PulledMessage:
    """Return a message with some fields of its own."""
    usual = PulledMessage(
        b"orders", 3, 17, 1 << 40 | 17, b"body", b"TAGS\x01A\x02", 1795860860391, V4,
        1795860860651, V4, 7, 0, 2, 0,
    )  # fmt: skip
    return usual._replace(**fields)  # type: ignore[arg-type]  # each test names its own


@pytest.mark.parametrize("born", [V4, V6])
@pytest.mark.parametrize("store", [V4, V6])
def test_hosts_of_both_sizes_return(born: bytes, store: bytes) -> None:
    sent = message(born_host=born, store_host=store, system_flag=0x301)
    (read,) = decode_messages(encode_message(sent))
    assert read._replace(system_flag=0x301) == sent
    assert read.system_flag == 0x301 | (0x10 if born is V6 else 0) | (0x20 if store is V6 else 0)


@pytest.mark.parametrize(
    ("size", "magic"), [(1, MAGIC_V1), (127, MAGIC_V1), (128, MAGIC_V2), (32767, MAGIC_V2)]
)
def test_a_topic_of_more_than_127_bytes_has_the_second_magic(size: int, magic: int) -> None:
    raw = encode_message(message(topic=b"t" * size))
    assert struct.unpack_from(">I", raw, 4) == (magic,)
    assert decode_message(raw)[0].topic == b"t" * size


def test_a_crc_with_its_top_bit_set_is_stored_without_it() -> None:
    body = next(b"%d" % n for n in range(100) if zlib.crc32(b"%d" % n) >> 31)
    raw = encode_message(message(body=body))
    assert struct.unpack_from(">I", raw, 8) == (zlib.crc32(body) & 0x7FFFFFFF,)
    assert decode_message(raw)[0].body == body


def test_a_changed_body_is_malformed() -> None:
    raw = bytearray(encode_message(message()))
    raw[raw.index(b"body")] ^= 1
    with pytest.raises(Malformed, match="CRC"):
        decode_message(bytes(raw))


def test_a_message_cut_anywhere_is_malformed() -> None:
    raw = encode_message(message())
    for size in range(1, len(raw)):
        with pytest.raises(Malformed):
            list(decode_messages(raw[:size]))


@pytest.mark.parametrize("at", [0, 4, 8, 36, 80, 87, 92, 99, 105, 107])
@pytest.mark.parametrize("value", [0, 0x7F, 0x80, 0xFF])
def test_a_message_with_a_wrong_byte_is_decoded_or_malformed(at: int, value: int) -> None:
    raw = bytearray(encode_message(message()))
    raw[at] = value
    with contextlib.suppress(Malformed):
        decode_message(bytes(raw))


@pytest.mark.parametrize(
    "fields",
    [
        {"properties": bytes(32768)},
        {"topic": bytes(32768)},
        {"born_host": bytes(7)},
        {"store_host": bytes(16)},
    ],
)
def test_a_message_with_a_field_too_long_is_not_encoded(fields: dict[str, bytes]) -> None:
    with pytest.raises(ValueError, match=r"\d+ bytes"):
        encode_message(message(**fields))


def test_the_longest_properties_return() -> None:
    sent = message(properties=b"p" * 32767)
    assert decode_message(encode_message(sent))[0] == sent


# Batches


def test_a_batch_returns_its_messages_in_order() -> None:
    sent = [BatchedMessage(n, b"b" * n, b"KEYS\x01%d\x02" % n) for n in range(5)]
    assert decode_batch(encode_batch(sent)) == sent


def test_a_batch_cut_anywhere_is_malformed() -> None:
    raw = encode_batch([BatchedMessage(0, b"one", b"a\x01b\x02")])
    for size in range(len(raw)):
        with pytest.raises(Malformed):
            decode_batch(raw[:size])
    with pytest.raises(Malformed):
        decode_batch(raw + raw[:5])


@pytest.mark.parametrize(
    "raw",
    [
        struct.pack(">iiiiih", 23, 0, 0, 0, 0, 0),
        struct.pack(">iiiiih", 21, 0, 0, 0, 0, 0),
        struct.pack(">iiiiih", 22, 0, 0, 0, -1, 0),
        struct.pack(">iiiiih", 22, 0, 0, 0, 0, -1),
        struct.pack(">iiiiih", 22, 0, 0, 0, 1 << 30, 0),
    ],
)
def test_a_batch_with_sizes_that_do_not_fit_is_malformed(raw: bytes) -> None:
    with pytest.raises(Malformed):
        decode_batch(raw)


def test_a_batch_has_a_greatest_number_of_messages() -> None:
    one = encode_batch([BatchedMessage(0, b"", b"")])
    assert len(decode_batch(one * MESSAGES_MAX)) == MESSAGES_MAX
    with pytest.raises(Malformed, match="more than"):
        decode_batch(one * (MESSAGES_MAX + 1))


def test_properties_of_more_than_32767_bytes_are_not_encoded() -> None:
    assert encode_batch([BatchedMessage(0, b"", bytes(32767))])
    with pytest.raises(ValueError, match="32768"):
        encode_batch([BatchedMessage(0, b"", bytes(32768))])


# Properties


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b"TAGS\x01A\x02", b"A"),
        (b"TAGS\x01A", b"A"),
        (b"KEYS\x01k\x02TAGS\x01A", b"A"),
        (b"KEYS\x01k\x02TAGS\x01A\x02WAIT\x01true\x02", b"A"),
        (b"TAGS\x01A\x02TAGS\x01B\x02", b"B"),
        (b"TAGS\x01\x02", b""),
        (b"TAGS\x01a\x01b\x02", b"a\x01b"),
        (b"XTAGS\x01A\x02", None),
        (b"TAGSX\x01A\x02", None),
        (b"x\x01TAGS\x01A\x02", None),
        (b"TAGS\x02", None),
        (b"", None),
    ],
)
def test_a_property_is_found_as_rocketmq_reads_it(raw: bytes, value: bytes | None) -> None:
    assert find_property(raw, b"TAGS") == value
    assert decode_properties(raw).get("TAGS") == (None if value is None else value.decode())


def test_properties_return() -> None:
    properties = {"TAGS": "A", "größe": "3", "empty": ""}
    assert decode_properties(encode_properties(properties)) == properties


@pytest.mark.parametrize("name", ["a\x01", "a\x02"])
def test_a_separator_in_a_property_is_refused(name: str) -> None:
    for properties in ({name: "x"}, {"x": name}):
        with pytest.raises(ValueError, match="separator"):
            encode_properties(properties)


def test_more_properties_are_appended_behind_the_end_of_an_entry() -> None:
    assert closed(b"") == b""
    assert closed(b"a\x01b") == closed(b"a\x01b\x02") == b"a\x01b\x02"


# Ids


@pytest.mark.parametrize(
    "place", [PlaceInCluster(0, 0), PlaceInCluster(1, 2), PlaceInCluster(8388607, (1 << 40) - 1)]
)
def test_a_place_returns_from_its_message_id(place: PlaceInCluster) -> None:
    physical = physical_offset(place)
    assert 0 <= physical < 1 << 63
    for host in (V4, V6):
        assert place_of(physical_offset_of(message_id(host, physical))) == place


def test_places_of_two_partitions_never_share_a_physical_offset() -> None:
    assert physical_offset(PlaceInCluster(0, OFFSET_MAX)) + 1 == (
        physical_offset(PlaceInCluster(1, 0))
    )


@pytest.mark.parametrize(
    "place",
    [
        PlaceInCluster(PARTITION_NUMBER_MAX + 1, 0),
        PlaceInCluster(-1, 0),
        PlaceInCluster(0, OFFSET_MAX + 1),
        PlaceInCluster(0, -1),
    ],
)
def test_a_place_out_of_range_has_no_physical_offset(place: PlaceInCluster) -> None:
    with pytest.raises(ValueError, match="no physical offset"):
        physical_offset(place)


@pytest.mark.parametrize("text", ["", "7F", "7F00000100002A9F000000000004692", "g" * 32, " 0" * 16])
def test_a_text_that_is_no_message_id_is_malformed(text: str) -> None:
    with pytest.raises(Malformed):
        physical_offset_of(text)


def test_a_negative_physical_offset_is_malformed() -> None:
    assert physical_offset_of("7F00000100002A9FFFFFFFFFFFFFFFFF") == -1
    with pytest.raises(Malformed, match="negative"):
        place_of(-1)


def test_a_host_is_an_address_and_a_port() -> None:
    assert V4 == b"\x7f\x00\x00\x01\x00\x00\x2a\x9f"
    assert len(V6) == 20
    assert host_bytes("::ffff:10.0.0.1", 1) == b"\x0a\x00\x00\x01\x00\x00\x00\x01"
    assert host_bytes("fe80::1%eth0", 1)[:2] == b"\xfe\x80"
    with pytest.raises(ValueError, match="address"):
        host_bytes("broker-a", 1)
