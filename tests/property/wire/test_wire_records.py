"""The coordinators' records: there and back in every version, and damaged."""

import contextlib
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.record.batch import CorruptBatch
from headrace.wire.kafka.coordinator_records import consumer_offsets as co
from headrace.wire.kafka.coordinator_records import share_state as ss
from headrace.wire.kafka.coordinator_records import transaction_state as ts
from headrace.wire.kafka.coordinator_records.offsets_tables import CONSUMER_OFFSETS
from headrace.wire.kafka.coordinator_records.state_tables import SHARE_STATE, TRANSACTION_STATE
from tests.support.examples import examples

common = settings(max_examples=examples(60), derandomize=True)
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


def test_the_tables_of_tools_read_share_state() -> None:
    value = ss.SnapshotValue(1, 2, 3, 4, 5, 6, [(7, 8, 2, 9)], 2)
    read = SHARE_STATE[0][1].decode(ss.encode_snapshot(value), 0, 2)
    assert (read["snapshotEpoch"], read["stateEpoch"], read["deliveryCompleteCount"]) == (1, 2, 2)
    assert read["stateBatches"] == [
        {"firstOffset": 7, "lastOffset": 8, "deliveryState": 2, "deliveryCount": 9}
    ]
    update = ss.UpdateValue(1, 3, 4, [(7, 8, 0, 1)])
    assert SHARE_STATE[1][1].decode(ss.encode_update(update), 0, 2)["startOffset"] == 4


# What is written by hand, because it is written often, is what the tables write.


@common
@given(st.integers(0, 4), int64, int32, texts, int64, int64, st.binary(min_size=16, max_size=16))
def test_committed_offsets_are_written_as_by_their_table(
    version: int, offset: int, epoch: int, metadata: str, at: int, expires: int, topic_id: bytes
) -> None:
    value = co.OffsetValue(offset, epoch, metadata, at, expires, topic_id, version)
    fields = {
        "offset": offset,
        "leaderEpoch": epoch,
        "metadata": metadata,
        "commitTimestamp": at,
        "expireTimestamp": expires,
        "topicId": topic_id,
    }
    message = CONSUMER_OFFSETS[1][1]
    assert message.encode(fields, version, head=version) == co.encode_offset_value(value)


@common
@given(texts, texts, int32)
def test_keys_are_written_as_by_their_tables(group: str, topic: str, partition: int) -> None:
    offset = {"group": group, "topic": topic, "partition": partition}
    key = CONSUMER_OFFSETS[1][0].encode(offset, 0, head=1)
    assert key == co.encode_key(co.OffsetKey(group, topic, partition))
    key = CONSUMER_OFFSETS[2][0].encode({"group": group}, 0, head=2)
    assert key == co.encode_key(co.GroupKey(group))
    key = TRANSACTION_STATE[0][0].encode({"transactionalId": group}, 0, head=0)
    assert key == ts.encode_key(ts.TransactionKey(group))
    share = {"groupId": group, "topicId": b"u" * 16, "partition": partition}
    for kind, (message, _) in SHARE_STATE.items():
        key = message.encode(share, 0, head=kind)
        assert key == ss.encode_key(ss.ShareKey(group, b"u" * 16, partition, kind))


@common
@given(
    st.integers(0, 4), texts, int32, st.none() | texts, st.none() | texts, int64,
    st.lists(members, max_size=4),
)  # fmt: skip
def test_groups_are_written_as_by_their_table(
    version: int,
    protocol_type: str,
    generation: int,
    protocol: str | None,
    leader: str | None,
    at: int,
    inside: list[co.Member],
) -> None:
    value = co.GroupValue(protocol_type, generation, protocol, leader, at, inside, version)
    fields = {
        "protocolType": protocol_type,
        "generation": generation,
        "protocol": protocol,
        "leader": leader,
        "currentStateTimestamp": at,
        "members": [
            {
                "memberId": member.member_id,
                "groupInstanceId": member.group_instance_id,
                "clientId": member.client_id,
                "clientHost": member.client_host,
                "rebalanceTimeout": member.rebalance_timeout_ms,
                "sessionTimeout": member.session_timeout_ms,
                "subscription": member.subscription,
                "assignment": member.assignment,
            }
            for member in inside
        ],
    }
    message = CONSUMER_OFFSETS[2][1]
    assert message.encode(fields, version, head=version) == co.encode_group_value(value)


@common
@given(
    st.integers(0, 1), int64, int16, int32, st.sampled_from(ts.TransactionStatus),
    st.none() | st.lists(st.tuples(texts, st.lists(int32, max_size=3)), max_size=3),
    int64, int64, int64, int64, int16,
)  # fmt: skip
def test_transactions_are_written_as_by_their_table(
    version: int,
    producer_id: int,
    epoch: int,
    timeout_ms: int,
    status: ts.TransactionStatus,
    topics: list[tuple[str, list[int]]] | None,
    updated: int,
    started: int,
    before: int,
    after: int,
    client: int,
) -> None:
    partitions = None if topics is None else [ts.TopicPartitions(*topic) for topic in topics]
    value = ts.TransactionValue(
        producer_id, epoch, timeout_ms, status, partitions, updated, started, before, after,
        client, version,
    )  # fmt: skip
    fields = {
        "producerId": producer_id,
        "previousProducerId": before,
        "nextProducerId": after,
        "producerEpoch": epoch,
        "transactionTimeoutMs": timeout_ms,
        "transactionStatus": status,
        "transactionPartitions": None
        if topics is None
        else [{"topic": topic, "partitionIds": numbers} for topic, numbers in topics],
        "transactionLastUpdateTimestampMs": updated,
        "transactionStartTimestampMs": started,
        "clientTransactionVersion": client,
    }
    message = TRANSACTION_STATE[0][1]
    assert message.encode(fields, version, head=version) == ts.encode_value(value)


@common
@given(
    int32, int32, int32, int64, int64, int64, int32,
    st.lists(st.tuples(int64, int64, st.integers(-128, 127), int16), max_size=3),
)  # fmt: skip
def test_share_states_are_written_as_by_their_tables(
    snapshot: int,
    state: int,
    leader: int,
    start: int,
    created: int,
    written: int,
    complete: int,
    batches: list[ss.Batch],
) -> None:
    names = ("firstOffset", "lastOffset", "deliveryState", "deliveryCount")
    fields = {
        "snapshotEpoch": snapshot,
        "stateEpoch": state,
        "leaderEpoch": leader,
        "startOffset": start,
        "deliveryCompleteCount": complete,
        "createTimestamp": created,
        "writeTimestamp": written,
        "stateBatches": [dict(zip(names, batch, strict=True)) for batch in batches],
    }
    whole = ss.SnapshotValue(snapshot, state, leader, start, created, written, batches, complete)
    assert SHARE_STATE[0][1].encode(fields, 0, head=0) == ss.encode_snapshot(whole)
    update = ss.UpdateValue(snapshot, leader, start, batches, complete)
    assert SHARE_STATE[1][1].encode(fields, 0, head=0) == ss.encode_update(update)
