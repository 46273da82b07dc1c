"""The coordinators' own fast writers against the formats' codec."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.coordination.groups import records
from headrace.coordination.groups.classic.subscription import subscribed_topics
from headrace.coordination.groups.committed_offsets import Committed
from headrace.shards.group_partition import java_string_hash, partition_for
from headrace.wire.kafka.coordinator_records.consumer_offsets import (
    OffsetKey,
    OffsetValue,
    decode_key,
    decode_offset_value,
    encode_key,
    encode_offset_value,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
TIMES = st.integers(0, (1 << 63) - 1)


@given(TEXT, TEXT, INT32)
def test_keys_are_the_codecs(group: str, topic: str, partition: int) -> None:
    raw = records.offset_key((group, topic, partition))
    assert raw == encode_key(OffsetKey(group, topic, partition))
    assert decode_key(raw) == OffsetKey(group, topic, partition)


@given(TIMES, INT32, TEXT, TIMES, st.one_of(st.just(-1), TIMES))
def test_values_are_the_codecs(
    offset: int, epoch: int, metadata: str, committed: int, expires: int
) -> None:
    raw = records.offset_value(Committed(offset, epoch, metadata, committed, expires))
    if expires < 0:
        value = OffsetValue(offset, epoch, metadata, committed)
    else:  # version 1 knows no leader epoch
        value = OffsetValue(offset, -1, metadata, committed, expires, version=1)
    assert raw == encode_offset_value(value)
    assert decode_offset_value(raw) == value


@given(TIMES, INT32, TEXT, TIMES)
def test_a_value_of_many_alike_is_the_one_made_alone(
    offset: int, epoch: int, metadata: str, committed: int
) -> None:
    alone = records.offset_value(Committed(offset, epoch, metadata, committed))
    assert records.offset_packer(metadata)(offset, epoch, committed) == alone


@given(TEXT, st.integers(1, 1000))
def test_every_group_has_a_partition(group: str, partitions: int) -> None:
    assert 0 <= partition_for(group, partitions) < partitions
    assert -(1 << 31) <= java_string_hash(group) < 1 << 31


@given(st.binary(max_size=60))
def test_no_bytes_upset_the_reader_of_subscriptions(metadata: bytes) -> None:
    topics = subscribed_topics(metadata)
    assert topics is None or sum(map(len, topics)) <= len(metadata)
