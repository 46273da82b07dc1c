"""The coordinators' records: there and back in every version, and damaged."""

import contextlib
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.record.batch import CorruptBatch
from headrace.wire.kafka.coordinator_records import consumer_offsets as co
from headrace.wire.kafka.coordinator_records import share_groups as sg
from headrace.wire.kafka.coordinator_records import share_state as ss
from headrace.wire.kafka.coordinator_records import transaction_state as ts
from headrace.wire.kafka.coordinator_records.offsets_tables import CONSUMER_OFFSETS
from headrace.wire.kafka.coordinator_records.state_tables import SHARE_STATE

common = settings(max_examples=60, deadline=None, derandomize=True)
int16 = st.integers(-(1 << 15), (1 << 15) - 1)
int32 = st.integers(-(1 << 31), (1 << 31) - 1)
int64 = st.integers(-(1 << 63), (1 << 63) - 1)
texts = st.text(max_size=40)
blobs = st.binary(max_size=60)


@common
@given(st.one_of(
    st.builds(co.OffsetKey, texts, texts, int32, st.sampled_from([0, 1])),
    st.builds(co.GroupKey, texts),
    st.builds(co.OtherKey, st.integers(3, 20), blobs),
))  # fmt: skip
def test_keys_of_consumer_offsets_come_back(key: co.Key) -> None:
    assert co.decode_key(co.encode_key(key)) == key


@common
@given(st.integers(0, 4), int64, int32, texts, int64, int64, st.binary(min_size=16, max_size=16))
def test_committed_offsets_come_back_with_what_their_version_holds(
    version: int, offset: int, epoch: int, metadata: str, at: int, expires: int, topic_id: bytes
) -> None:
    value = co.OffsetValue(
        offset,
        epoch if version >= 3 else -1,
        metadata,
        at,
        expires if version == 1 else -1,
        topic_id if version >= 4 else bytes(16),
        version,
    )
    assert co.decode_offset_value(co.encode_offset_value(value)) == value


members = st.builds(co.Member, texts, st.none() | texts, texts, texts, int32, int32, blobs, blobs)


@common
@given(
    st.integers(3, 4), texts, int32, st.none() | texts, st.none() | texts, int64,
    st.lists(members, max_size=4),
)  # fmt: skip
def test_groups_come_back(
    version: int,
    protocol_type: str,
    generation: int,
    protocol: str | None,
    leader: str | None,
    at: int,
    group: list[co.Member],
) -> None:
    value = co.GroupValue(protocol_type, generation, protocol, leader, at, group, version)
    assert co.decode_group_value(co.encode_group_value(value)) == value


def test_old_groups_take_the_session_timeout_for_the_rebalance_timeout() -> None:
    member = co.Member("m", None, "c", "h", 9000, 6000, b"s", b"a")
    value = co.GroupValue("consumer", 3, "range", "m", -1, [member], 0)
    (back,) = co.decode_group_value(co.encode_group_value(value)).members
    assert back.rebalance_timeout_ms == 6000


topics = st.builds(ts.TopicPartitions, texts, st.lists(int32, max_size=4))


@common
@given(
    st.integers(0, 1), int64, int16, int32, st.sampled_from(ts.TransactionStatus),
    st.none() | st.lists(topics, max_size=3), int64, int64, int64, int64, int16,
)  # fmt: skip
def test_transactions_come_back(
    version: int,
    producer_id: int,
    epoch: int,
    timeout_ms: int,
    status: ts.TransactionStatus,
    partitions: list[ts.TopicPartitions] | None,
    updated: int,
    started: int,
    before: int,
    after: int,
    client: int,
) -> None:
    tagged = (before, after, client) if version >= 1 else (-1, -1, 0)
    value = ts.TransactionValue(
        producer_id, epoch, timeout_ms, status, partitions, updated, started, *tagged, version
    )
    assert ts.decode_value(ts.encode_value(value)) == value
    key = ts.TransactionKey("tx")
    assert ts.decode_key(ts.encode_key(key)) == key


@pytest.mark.parametrize(
    "decode",
    [co.decode_key, co.decode_offset_value, co.decode_group_value, ts.decode_key, ts.decode_value],
)
@common
@given(version=st.integers(-1, 6), noise=blobs)
def test_damaged_records_are_corrupt_and_nothing_else(
    decode: Callable[[bytes], object], version: int, noise: bytes
) -> None:
    for data in (noise, version.to_bytes(2, "big", signed=True) + noise):
        with contextlib.suppress(CorruptBatch):
            decode(data)


ids = st.binary(min_size=16, max_size=16)
share_batches = st.lists(st.tuples(int64, int64, st.sampled_from([0, 2, 4]), int16), max_size=4)
share_tags = st.lists(st.tuples(st.integers(1, 9), blobs), max_size=2, unique_by=lambda tag: tag[0])


def sorted_tags(tags: list[tuple[int, bytes]]) -> tuple[tuple[int, bytes], ...]:
    return tuple(sorted(tags))


@common
@given(texts, ids, int32, st.integers(0, 1))
def test_keys_of_share_state_come_back(
    group: str, topic_id: bytes, partition: int, kind: int
) -> None:
    key = ss.ShareKey(group, topic_id, partition, kind)
    assert ss.decode_key(ss.encode_key(key)) == key


@common
@given(int32, int32, int32, int64, int64, int64, share_batches, int32, share_tags)
def test_share_states_come_back(
    snapshot: int,
    state: int,
    leader: int,
    start: int,
    created: int,
    written: int,
    batches: list[ss.Batch],
    complete: int,
    tags: list[tuple[int, bytes]],
) -> None:
    whole = ss.SnapshotValue(
        snapshot, state, leader, start, created, written, batches, complete, sorted_tags(tags)
    )
    assert ss.decode_snapshot(ss.encode_snapshot(whole)) == whole
    update = ss.UpdateValue(snapshot, leader, start, batches, complete, sorted_tags(tags))
    assert ss.decode_update(ss.encode_update(update)) == update


indexes = st.lists(int32, max_size=3).map(tuple)
assignments = st.dictionaries(ids, indexes, max_size=3)
share_topics = st.dictionaries(ids, st.builds(sg.TopicState, texts, indexes), max_size=3)
share_values = st.one_of(
    st.tuples(
        st.just(sg.MEMBER),
        st.builds(
            sg.MemberValue, st.none() | texts, texts, texts, st.lists(texts, max_size=3).map(tuple)
        ),
    ),
    st.tuples(st.just(sg.GROUP), st.builds(sg.GroupValue, int32, int64)),
    st.tuples(st.just(sg.TARGET), st.builds(sg.TargetValue, int32, int64)),
    st.tuples(st.just(sg.TARGET_MEMBER), assignments),
    st.tuples(
        st.just(sg.CURRENT_MEMBER),
        st.builds(sg.CurrentValue, int32, int32, st.integers(-128, 127), assignments),
    ),
    st.tuples(
        st.just(sg.STATE_PARTITIONS),
        st.builds(
            sg.StatePartitionsValue,
            share_topics,
            share_topics,
            st.dictionaries(ids, st.builds(sg.TopicState, texts), max_size=2),
        ),
    ),
)


@common
@given(share_values, texts, texts)
def test_share_groups_come_back(written: tuple[int, sg.Value], group: str, member: str) -> None:
    kind, value = written
    of_member = kind in (sg.MEMBER, sg.TARGET_MEMBER, sg.CURRENT_MEMBER)
    key = sg.ShareGroupKey(kind, group, member if of_member else "")
    assert sg.decode_key(sg.encode_key(key)) == key
    assert sg.decode_value(kind, sg.encode_value(value)) == value


@pytest.mark.parametrize("kind", sg.KEY_TYPES)
def test_the_tables_of_tools_read_what_is_written_of_share_groups(kind: int) -> None:
    samples: dict[int, sg.Value] = {
        sg.MEMBER: sg.MemberValue("r", "c", "/h", ("t",)),
        sg.GROUP: sg.GroupValue(3, 4),
        sg.TARGET: sg.TargetValue(5, 6),
        sg.TARGET_MEMBER: {bytes(16): (0, 1)},
        sg.CURRENT_MEMBER: sg.CurrentValue(7, 6, 0, {bytes(16): (0,)}),
        sg.STATE_PARTITIONS: sg.StatePartitionsValue({}, {bytes(16): sg.TopicState("t", (0,))}, {}),
    }
    read = CONSUMER_OFFSETS[kind][1].decode(sg.encode_value(samples[kind]), 0, 2)
    assert read


def test_the_tables_of_tools_read_share_state() -> None:
    value = ss.SnapshotValue(1, 2, 3, 4, 5, 6, [(7, 8, 2, 9)], 2)
    read = SHARE_STATE[0][1].decode(ss.encode_snapshot(value), 0, 2)
    assert (read["snapshotEpoch"], read["stateEpoch"], read["deliveryCompleteCount"]) == (1, 2, 2)
    assert read["stateBatches"] == [
        {"firstOffset": 7, "lastOffset": 8, "deliveryState": 2, "deliveryCount": 9}
    ]
    update = ss.UpdateValue(1, 3, 4, [(7, 8, 0, 1)])
    assert SHARE_STATE[1][1].decode(ss.encode_update(update), 0, 2)["startOffset"] == 4
