"""Cold messages: there and back for every API, and hostile bytes that only ever give Malformed."""

import contextlib
import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.model.errors import Malformed
from headrace.wire.kafka import kio_codec
from headrace.wire.kafka.api import VERSIONS, ApiKey, is_flexible
from headrace.wire.kafka.writer import encode_uvarint
from tests.support.wire.messages import messages

HIGHEST = [
    pytest.param(key, high, part, id=f"{key.name}-v{high}-{part}")
    for key, (_, high) in VERSIONS.items()
    for part in ("request", "response")
]
SERVED_COLD = [
    ApiKey.OFFSET_FETCH,
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.CREATE_TOPICS,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.DELETE_GROUPS,
]
HUGE = (2**27, 2**30, 2**31 - 1)
quick = settings(max_examples=4, derandomize=True, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize(("key", "version", "part"), HIGHEST)
@quick
@given(data=st.data())
def test_cold_message_comes_back_as_it_went(
    key: ApiKey, version: int, part: str, data: st.DataObject
) -> None:
    entity = data.draw(messages(getattr(kio_codec, f"{part}_type")(key, version)))
    decode = getattr(kio_codec, f"decode_{part}")
    assert decode(key, version, memoryview(bytearray(kio_codec.encode_body(entity)))) == entity


@pytest.mark.parametrize("key", SERVED_COLD)
@pytest.mark.parametrize("count", HUGE)
def test_an_announced_array_that_cannot_be_is_refused_before_anything_is_allocated(
    key: ApiKey, count: int
) -> None:
    low, high = VERSIONS[key]
    for version in range(low, high + 1):
        announced = struct.pack(">i", count)
        if is_flexible(key, version):
            announced = encode_uvarint(count + 1)
        for filler in (b"\x00", b"\x01"):
            for before in range(24):
                frame = memoryview(bytearray(filler * before + announced + bytes(100)))
                for decode in (kio_codec.decode_request, kio_codec.decode_response):
                    with contextlib.suppress(Malformed):
                        decode(key, version, frame)


def test_an_array_of_two_to_the_thirty_is_malformed() -> None:
    body = memoryview(struct.pack(">i", 2**30) + bytes(100))
    with pytest.raises(Malformed, match="1073741824 elements announced"):
        kio_codec.decode_request(ApiKey.CREATE_TOPICS, 4, body)


@pytest.mark.parametrize(("key", "version", "part"), HIGHEST)
@quick
@given(noise=st.binary(max_size=80))
def test_noise_is_malformed_or_a_message(
    key: ApiKey, version: int, part: str, noise: bytes
) -> None:
    with contextlib.suppress(Malformed):
        getattr(kio_codec, f"decode_{part}")(key, version, memoryview(noise))


def test_tagged_fields_that_nobody_knows_are_passed_over() -> None:
    group = b"\x02g" + struct.pack(">i", 7) + b"\x02m" + b"\x00"
    request = kio_codec.decode_request(
        ApiKey.HEARTBEAT, 4, memoryview(group + b"\x02\x05\x03abc\x09\x00")
    )
    assert (request.group_id, request.generation_id, request.member_id) == ("g", 7, "m")


def test_unknown_tags_inside_known_ones_are_passed_over() -> None:
    endpoints = b"\x02" + struct.pack(">i", 1) + b"\x02h" + struct.pack(">i", 9092) + b"\x00"
    endpoints += b"\x01\x07\x01x"
    body = b"\x01" + bytes(4) + b"\x02" + b"\x00" + bytes((len(endpoints),)) + endpoints
    body += b"\x04\x02zz"
    response = kio_codec.decode_response(ApiKey.PRODUCE, 13, memoryview(body))
    assert [endpoint.host for endpoint in response.node_endpoints] == ["h"]


def test_a_cold_request_has_a_greatest_size() -> None:
    with pytest.raises(Malformed, match="at most"):
        kio_codec.decode_request(
            ApiKey.CREATE_TOPICS, 7, memoryview(bytearray(kio_codec.REQUEST_BYTES_MAX + 1))
        )


def test_a_version_kafka_does_not_have_is_malformed() -> None:
    for key, version in ((ApiKey.CREATE_TOPICS, 8), (ApiKey.LEADER_AND_ISR, 0), (999, 0)):
        with pytest.raises(Malformed, match="not spoken"):
            kio_codec.decode_request(key, version, memoryview(b""))
