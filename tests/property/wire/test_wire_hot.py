"""Every hot codec, every version, both directions, held against kio.

kio makes a message and its bytes; we decode them, compare every field by name, and encode them to
the same bytes again.
"""

import contextlib
import dataclasses
import datetime
import uuid
from types import ModuleType
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.model.errors import Malformed
from headrace.wire.kafka import kio_codec
from headrace.wire.kafka.api import VERSIONS, ApiKey
from headrace.wire.kafka.hot import (
    api_versions,
    fetch,
    heartbeat,
    list_offsets,
    metadata,
    offset_commit,
    produce,
    share_acknowledge,
    share_fetch,
)
from headrace.wire.kafka.primitives import NO_UUID
from tests.support.wire.messages import EPOCH, messages

CODECS: dict[ApiKey, ModuleType] = {
    ApiKey.PRODUCE: produce,
    ApiKey.FETCH: fetch,
    ApiKey.LIST_OFFSETS: list_offsets,
    ApiKey.METADATA: metadata,
    ApiKey.OFFSET_COMMIT: offset_commit,
    ApiKey.HEARTBEAT: heartbeat,
    ApiKey.API_VERSIONS: api_versions,
    ApiKey.SHARE_FETCH: share_fetch,
    ApiKey.SHARE_ACKNOWLEDGE: share_acknowledge,
}
CASES = [
    pytest.param(key, version, part, id=f"{key.name}-v{version}-{part}")
    for key in CODECS
    for version in range(VERSIONS[key][0], VERSIONS[key][1] + 1)
    for part in ("request", "response")
]

# Our name of a field -> kio's names of it, in this or that API or version.
NAMES: dict[str, tuple[str, ...]] = {
    "topics": ("topic_data", "responses", "topics"),
    "partitions": ("partition_data", "partition_responses", "partitions", "partition_indexes"),
    "partition": ("index", "partition", "partition_index"),
    "name": ("topic", "name"),
    "timeout_ms": ("timeout",),
    "throttle_ms": ("throttle_time",),
    "message": ("batch_index_error_message",),
    "max_wait_ms": ("max_wait",),
    "max_bytes": ("partition_max_bytes", "max_bytes"),
    "forgotten": ("forgotten_topics_data",),
    "aborted": ("aborted_transactions",),
    "index": ("partition_index",),
    "replicas": ("replica_nodes",),
    "isr": ("isr_nodes",),
    "offline": ("offline_replicas",),
    "authorized_operations": ("topic_authorized_operations",),
    "generation_id": ("generation_id", "generation_id_or_member_epoch"),
    "retention_ms": ("retention_time",),
    "offset": ("committed_offset", "offset"),
    "leader_epoch": ("committed_leader_epoch", "leader_epoch"),
    "metadata": ("committed_metadata",),
    "supported": ("supported_features",),
    "finalized": ("finalized_features",),
    "finalized_epoch": ("finalized_features_epoch",),
    "session_epoch": ("share_session_epoch", "session_epoch"),
    "acquire_mode": ("share_acquire_mode",),
    "acks": ("acknowledgement_batches", "acks"),
    "first": ("first_offset",),
    "last": ("last_offset",),
    "kinds": ("acknowledge_types",),
    "lock_timeout_ms": ("acquisition_lock_timeout",),
    "ack_error_code": ("acknowledge_error_code",),
    "ack_error_message": ("acknowledge_error_message",),
    "acquired": ("acquired_records",),
}


def plain(value: Any) -> Any:
    """kio's value as we write it."""
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, datetime.timedelta):
        return round(value / datetime.timedelta(milliseconds=1))
    if isinstance(value, datetime.datetime):
        return round((value - EPOCH) / datetime.timedelta(milliseconds=1))
    return value


def compare(ours: Any, theirs: Any, version: int) -> None:
    """Assert that our message says what kio's does; every field of kio's must be met."""
    met = set()
    for name, value in zip(ours._fields, ours, strict=True):
        kio_names = [other for other in NAMES.get(name, (name,)) if hasattr(theirs, other)]
        if kio_names:
            met.add(kio_names[0])
            compare_value(value, getattr(theirs, kio_names[0]), version, name)
        elif name in ours._field_defaults and name not in {"replica_id", "replica_epoch"}:
            assert (tuple(value) if isinstance(value, list) else value) == (
                ours._field_defaults[name]
            ), name
    if hasattr(theirs, "replica_state"):
        met.add("replica_state")
        assert theirs.replica_state.replica_id == ours.replica_id
        assert theirs.replica_state.replica_epoch == ours.replica_epoch
    assert met == {field.name for field in dataclasses.fields(theirs)}


def compare_value(ours: Any, theirs: Any, version: int, name: str) -> None:
    if name == "records" and isinstance(ours, tuple):
        assert b"".join(ours) == theirs
    elif isinstance(theirs, tuple) and theirs and dataclasses.is_dataclass(theirs[0]):
        assert len(ours) == len(theirs)
        for mine, other in zip(ours, theirs, strict=True):
            compare(mine, other, version)
    elif isinstance(theirs, tuple):
        if ours is None:  # Metadata's first version asks for all topics by an empty list
            assert (name, version, theirs) == ("topics", 0, ()), f"{name} is empty, not null"
        else:
            assert list(ours) == list(theirs), name
    elif dataclasses.is_dataclass(theirs):
        compare(ours, theirs, version)
    elif theirs is None and name in {"topic_id", "replica_directory_id"}:
        assert ours == NO_UUID
    elif theirs is None and name == "log_append_time":
        assert ours == -1
    else:
        assert ours == plain(theirs), name


def body_of(part: str, codec: ModuleType, version: int, message: Any) -> bytes:
    encoded = getattr(codec, f"encode_{part}")(version, message)
    return b"".join(encoded) if isinstance(encoded, list) else encoded


@pytest.mark.parametrize(("key", "version", "part"), CASES)
@settings(max_examples=15, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_hot_codec_says_what_kio_says(
    key: ApiKey, version: int, part: str, data: st.DataObject
) -> None:
    entity_type = getattr(kio_codec, f"{part}_type")(key, version)
    theirs = data.draw(messages(entity_type))
    wire = kio_codec.encode_body(theirs)
    codec = CODECS[key]
    ours = getattr(codec, f"decode_{part}")(version, memoryview(bytearray(wire)))
    compare(ours, theirs, version)
    assert body_of(part, codec, version, ours) == wire


@pytest.mark.parametrize(("key", "version", "part"), CASES)
@settings(max_examples=10, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_hot_codec_meets_damage_with_malformed_and_nothing_else(
    key: ApiKey, version: int, part: str, data: st.DataObject
) -> None:
    entity_type = getattr(kio_codec, f"{part}_type")(key, version)
    wire = bytearray(kio_codec.encode_body(data.draw(messages(entity_type))))
    for _ in range(data.draw(st.integers(0, 3))):
        if wire:
            wire[data.draw(st.integers(0, len(wire) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(wire)))
    for damaged in (wire, wire[:cut], data.draw(st.binary(max_size=60))):
        with contextlib.suppress(Malformed):
            getattr(CODECS[key], f"decode_{part}")(version, memoryview(damaged))


PRODUCE_VERSIONS = range(VERSIONS[ApiKey.PRODUCE][0], VERSIONS[ApiKey.PRODUCE][1] + 1)


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@pytest.mark.parametrize(
    "size", [0, 1, 126, 127, 128, 16_382, 16_383, 16_384, 2_097_151, 2_097_152]
)
@pytest.mark.parametrize("name", ["t", "ä" * 63, "n" * 126, "n" * 127, "n" * 249])
def test_the_usual_produce_request_says_the_same_in_one_pass(
    version: int, size: int, name: str
) -> None:
    by_id = version >= produce.TOPIC_IDS_FROM
    topic = produce.TopicData(
        "" if by_id else name,
        bytes(range(16)) if by_id else NO_UUID,
        [produce.PartitionData(7, bytes(size))],
    )
    request = produce.ProduceRequest(None, -1, 30_000, [topic])
    body = memoryview(bytearray(produce.encode_request(version, request)))
    decoded = produce.decode_request(version, body)
    assert decoded == request
    records = decoded.topics[0].partitions[0].records
    assert isinstance(records, memoryview)
    assert not records.readonly  # the batch is stamped where it lies
    for cut in (1, 2, 3, 4, 20):
        with pytest.raises(Malformed):
            produce.decode_request(version, body[:-cut])


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@pytest.mark.parametrize("name", ["t", "ä" * 63, "n" * 126, "n" * 127, "n" * 249])
def test_the_usual_produce_answer_is_the_general_one(version: int, name: str) -> None:
    topic_id = bytes(range(16))
    body = produce.encode_appended(version, name, topic_id, 3, 1 << 40, 5, 6)
    partition = produce.PartitionResponse(3, 0, 1 << 40, 5, 6)
    general = produce.ProduceResponse([produce.TopicResponse(name, topic_id, [partition])])
    assert body == produce.encode_response(version, general)


@pytest.mark.parametrize("version", range(4, 19))
def test_large_records_leave_in_the_buffer_they_came_in(version: int) -> None:
    records = memoryview(bytearray(100_000))
    partition = fetch.FetchedPartition(0, records=records)
    topic = fetch.FetchedTopic("t", bytes(16), [partition, partition._replace(partition=1)])
    response = fetch.FetchResponse(topics=[topic])
    parts = cast("list[memoryview]", fetch.encode_response(version, response))
    assert [part for part in parts if part is records] == [records, records]
    decoded = fetch.decode_response(version, memoryview(b"".join(parts)))
    assert [each.records for each in decoded.topics[0].partitions] == [records, records]


@pytest.mark.parametrize("version", range(4, 19))
def test_a_session_that_goes_on_as_it_was_asks_for_nothing_new(version: int) -> None:
    request = fetch.FetchRequest(500, 1, 1 << 20, 1)
    if version >= fetch.SESSIONS_FROM:
        request = request._replace(session_id=9, session_epoch=4)
    decoded = fetch.decode_request(version, memoryview(fetch.encode_request(version, request)))
    assert decoded._replace(topics=(), forgotten=()) == request
    assert not decoded.topics
