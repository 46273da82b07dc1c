"""Frames, versions and primitives: what is announced is held against what is there."""

import struct
import subprocess
import sys

import pytest
from kio import index as kio_index
from kio.schema.index import api_key_map, schema_name_map

from headrace.model.errors import ErrorCode, Malformed
from headrace.wire.kafka import api, frame, kio_codec
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.hot import api_versions, produce
from headrace.wire.kafka.primitives import NO_UUID
from headrace.wire.kafka.reader import ELEMENTS_MAX, CompactReader, Reader
from headrace.wire.kafka.writer import CompactWriter, Writer


def test_versions_are_those_of_kafka_4_3() -> None:
    for key, name in api_key_map.items():
        low, high = api.VERSIONS[ApiKey(key)]
        known = sorted(schema_name_map[name])
        assert (low, high) == (known[0], known[-1]), name
    assert {int(key) for key in api.VERSIONS} == set(api_key_map)
    # Unstable in 4.3, and not offered by its brokers.
    assert {ApiKey.INIT_PRODUCER_ID: api.VERSIONS[ApiKey.INIT_PRODUCER_ID][1]} == api.UNSTABLE_FROM


def test_header_versions_are_those_of_the_schemas() -> None:
    for key, (low, high) in api.VERSIONS.items():
        for version in range(low, high + 1):
            request = kio_index.load_request_schema(key, version)
            response = kio_index.load_response_schema(key, version)
            assert request.__flexible__ == api.is_flexible(key, version)
            assert request.__header_schema__.__version__ == api.request_header_version(key, version)
            assert response.__header_schema__.__version__ == (
                api.response_header_version(key, version)
            )


def test_the_first_flexible_version_is_the_first_of_the_schemas_that_is() -> None:
    for key, name in api_key_map.items():
        flexible = [
            version
            for version in sorted(schema_name_map[name])
            if kio_index.load_request_schema(key, version).__flexible__
        ]
        assert api.flexible_from(key) == (flexible[0] if flexible else None), name


def test_produce_is_advertised_from_zero() -> None:
    assert api.ADVERTISED_FROM[ApiKey.PRODUCE] == 0
    assert api.VERSIONS[ApiKey.PRODUCE][0] == 3


@pytest.mark.parametrize("client_id", [None, "", "rdkafka", "ü" * 40])
@pytest.mark.parametrize("version", [8, 9])
def test_request_header_comes_back(client_id: str | None, version: int) -> None:
    body = b"the body"
    whole = frame.request_head(ApiKey.PRODUCE, version, 77, client_id, len(body)) + body
    assert struct.unpack_from(">i", whole)[0] == len(whole) - 4
    header = frame.parse_request(memoryview(whole)[4:])
    assert header[:4] == (ApiKey.PRODUCE, version, 77, client_id)
    assert whole[4 + header.body :] == body


def test_request_header_with_tagged_fields_is_passed_over() -> None:
    head = struct.pack(">hhih", ApiKey.PRODUCE, 9, 1, -1) + b"\x01\x05\x02ab" + b"body"
    assert frame.parse_request(memoryview(head)).body == len(head) - 4


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"\x00" * 9,
        struct.pack(">hhih", 0, 9, 1, 500),
        struct.pack(">hhih", 0, 9, 1, -2),
        struct.pack(">hhih", 0, 9, 1, 2) + b"\xff\xff\x00",
        struct.pack(">hhih", 0, 9, 1, -1),
        struct.pack(">hhih", 0, 9, 1, -1) + b"\xff\xff\xff\xff\x0f",
    ],
)
def test_a_header_that_is_none_is_malformed(bad: bytes) -> None:
    with pytest.raises(Malformed):
        frame.parse_request(memoryview(bad))


def test_response_frame_comes_back() -> None:
    for key, version in ((ApiKey.PRODUCE, 8), (ApiKey.PRODUCE, 9), (ApiKey.API_VERSIONS, 4)):
        whole = frame.response_head(key, version, 5, 4) + b"body"
        assert struct.unpack_from(">i", whole)[0] == len(whole) - 4
        correlation_id, at = frame.parse_response(memoryview(whole)[4:], key, version)
        assert (correlation_id, whole[4 + at :]) == (5, b"body")


def test_an_unknown_version_of_api_versions_is_answered_in_v0() -> None:
    body = memoryview(api_versions.encode_unsupported())
    answer = api_versions.decode_response(0, body)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert answer.api_keys == [(ApiKey.API_VERSIONS, 0, 4)]
    assert kio_codec.decode_response(ApiKey.API_VERSIONS, 0, body).error_code == 35


def test_features_from_version_zero_are_kept_from_old_clients() -> None:
    answer = api_versions.ApiVersionsResponse(
        supported=[
            api_versions.SupportedFeature("group.version", 0, 1),
            api_versions.SupportedFeature("metadata.version", 7, 29),
        ]
    )
    names = {}
    for version in (3, 4):
        body = memoryview(api_versions.encode_response(version, answer))
        decoded = kio_codec.decode_response(ApiKey.API_VERSIONS, version, body)
        names[version] = [feature.name for feature in decoded.supported_features]
    assert names == {3: ["metadata.version"], 4: ["group.version", "metadata.version"]}


@pytest.mark.parametrize(
    ("writer", "reader"), [(Writer, Reader), (CompactWriter, CompactReader)], ids=["old", "compact"]
)
def test_primitives_come_back(writer: type[Writer], reader: type[Reader]) -> None:
    out = writer()
    out.int8(-3)
    out.int16(-300)
    out.int32(-70000)
    out.uint32(4_000_000_000)
    out.int64(-(1 << 60))
    out.float64(0.5)
    out.boolean(True)
    out.uuid(bytes(range(16)))
    out.varint(-(1 << 31))
    out.varint(-(1 << 62))
    out.string("ü" * 100)
    out.nullable_string(None)
    out.bytes(b"xy")
    out.nullable_bytes(None)
    out.int32s([1, -2, 3])
    out.strings(["a", ""])
    out.count(-1)
    out.tags([(3, b"abc")])
    back = reader(memoryview(out.out))
    assert (back.int8(), back.int16(), back.int32()) == (-3, -300, -70000)
    assert (back.uint32(), back.int64(), back.float64()) == (4_000_000_000, -(1 << 60), 0.5)
    assert (back.boolean(), back.uuid()) == (True, bytes(range(16)))
    assert (back.varint(), back.varlong()) == (-(1 << 31), -(1 << 62))
    assert (back.string(), back.nullable_string()) == ("ü" * 100, None)
    assert bytes(back.bytes()) == b"xy"
    assert back.nullable_bytes() is None
    assert (back.int32s(), back.strings(), back.nullable_count(1)) == ([1, -2, 3], ["a", ""], -1)
    back.skip_tags()
    assert back.remaining() == 0


@pytest.mark.parametrize("reader", [Reader, CompactReader])
@pytest.mark.parametrize(
    "method", ["string", "bytes", "int32s", "strings", "nullable_string", "nullable_bytes"]
)
@pytest.mark.parametrize("data", [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"", b"\x80"])
def test_lengths_beyond_the_end_are_malformed(
    reader: type[Reader], method: str, data: bytes
) -> None:
    if data == b"\xff\xff\xff\xff\x0f" and reader is Reader and method.startswith("nullable"):
        return  # -1: null
    with pytest.raises(Malformed):
        getattr(reader(memoryview(data)), method)()


def test_an_array_count_is_held_against_the_bytes_left() -> None:
    reader = Reader(memoryview(struct.pack(">i", 26) + bytes(100)))
    with pytest.raises(Malformed, match="26 elements"):
        reader.count(4)


@pytest.mark.parametrize("reader", [Reader, CompactReader])
def test_a_message_has_a_greatest_number_of_elements(reader: type[Reader]) -> None:
    writer = CompactWriter() if reader is CompactReader else Writer()
    for _ in range(2):
        writer.count(ELEMENTS_MAX // 2)
        writer.raw(bytes(ELEMENTS_MAX // 2))
    writer.count(1)
    writer.raw(b"x")
    message = reader(memoryview(writer.out))
    for _ in range(2):
        message.skip(message.count(1))
    with pytest.raises(Malformed, match="more than 1000000 array elements"):
        message.count(1)


@pytest.mark.parametrize(
    "module",
    ["wire.kafka.hot", "wire.kafka.kio_codec", "wire.kafka.frame", "wire.kafka.api", "record.batch",
     "record.compression"],
)  # fmt: skip
def test_importing_the_wire_brings_neither_kio_nor_codecs(module: str) -> None:
    program = (
        f"import sys, headrace.{module}\n"
        "print([n for n in ('kio', 'zstandard', 'lz4', 'cramjam', 'asyncio') if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_tags_must_ascend() -> None:
    with pytest.raises(Malformed, match="tag 1 after tag 1"):
        CompactReader(memoryview(b"\x02\x01\x00\x01\x00")).skip_tags()


@pytest.mark.parametrize(
    "head",
    [
        struct.pack(">hhih", ApiKey.PRODUCE, 8, 1, 3) + b"ab",
        struct.pack(">hhih", ApiKey.PRODUCE, 8, 1, -2) + b"ab",
        struct.pack(">hhih", ApiKey.PRODUCE, 8, 1, 1) + b"\xff",
    ],
    ids=["longer", "negative", "no-utf8"],
)
def test_a_client_id_that_is_none_is_malformed(head: bytes) -> None:
    with pytest.raises(Malformed, match="client id"):
        frame.parse_request(memoryview(head))


def test_short_lengths_beyond_the_end_are_malformed_too() -> None:
    with pytest.raises(Malformed):
        CompactReader(memoryview(b"\x05ab")).string()
    with pytest.raises(Malformed, match="4 elements announced"):
        CompactReader(memoryview(b"\x05ab")).count(1)
    with pytest.raises(Malformed, match="5 tags announced"):
        CompactReader(memoryview(b"\x05\x00\x00")).skip_tags()


@pytest.mark.parametrize("version", range(3, 13))
@pytest.mark.parametrize("transactional_id", [None, "", "t"])
def test_one_batch_for_one_partition_keeps_its_transactional_id(
    version: int, transactional_id: str | None
) -> None:
    topics = [produce.TopicData("topic", NO_UUID, [produce.PartitionData(3, b"records")])]
    request = produce.ProduceRequest(transactional_id, -1, 1000, topics)
    body = memoryview(bytearray(produce.encode_request(version, request)))
    back = produce.decode_request(version, body)
    assert back.transactional_id == transactional_id
    assert (back.acks, back.timeout_ms) == (-1, 1000)
    (partition,) = back.topics[0].partitions
    assert (partition.partition, bytes(partition.records or b"")) == (3, b"records")
    usual = produce.decode_usual(version, body)
    assert (usual is None) == (transactional_id is not None)
    tail = produce.tail_bytes(version)
    assert bytes(body[len(body) - tail - 7 :]) == b"records" + bytes(tail)
