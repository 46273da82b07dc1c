"""Replay: what was committed is what a restarted coordinator answers, from Kafka's logs too."""

import gzip
import json
import tarfile
from pathlib import Path

import pytest

from headrace.coordination.groups import records
from headrace.coordination.groups.classic.states import GroupState
from headrace.coordination.groups.committed_offsets import Committed
from headrace.coordination.groups.messages import CommitRequest, OffsetToCommit
from headrace.model.errors import ApiError, ErrorCode
from headrace.record.batch import ControlType, build, build_marker, new_record
from tests.support.coordination.groups_kit import (
    HandClock,
    MemoryLog,
    MemoryPartition,
    Room,
    Settings,
)

GOLDEN = Path(__file__).parents[2] / "golden"
S = GroupState
PRODUCER = 77


def test_a_stable_group_survives_with_members_generation_and_assignments() -> None:
    room = Room()
    members, generation = room.stable(2)
    later = room.restart()
    assert later.group().state is S.STABLE
    for member in members:
        assert later.beat(member, generation) is ErrorCode.NONE
        assert later.sync(member, generation)[0].assignment == member.encode()
    assert later.group().leader == members[0]


def test_members_are_known_after_a_restart_by_their_clients_names_and_addresses() -> None:
    room = Room()
    (member,), _ = room.stable(session_ms=7_000, rebalance_ms=21_000)
    known = room.restart().group().members[member]
    assert (known.client_id, known.client_host) == ("client", "/127.0.0.1")
    assert (known.session_timeout_ms, known.rebalance_timeout_ms) == (7_000, 21_000)
    assert (known.protocol_type, known.instance_id) == ("consumer", None)


def test_members_that_are_not_heard_of_after_a_restart_expire() -> None:
    room = Room()
    room.stable(2, session_ms=10_000)
    later = room.restart()
    later.clock.advance(10.1)
    assert later.group().state is S.EMPTY


def test_a_generation_that_was_not_committed_is_joined_anew() -> None:
    room = Room()
    (member,), generation = room.stable()
    joined = room.join(member)
    room.partition.hold = True
    room.sync(member, joined[0].generation, {member: b"new"})
    later = room.restart()
    assert later.group().generation == generation
    assert later.sync(member, joined[0].generation)[0].error is ErrorCode.ILLEGAL_GENERATION
    assert later.join(member)[0].error is ErrorCode.NONE


def test_a_group_that_is_too_large_after_a_restart_rebalances() -> None:
    room = Room()
    room.stable(3)
    room.settings = Settings(group_max_size=2)
    assert room.restart().group().state is S.PREPARING_REBALANCE


def test_while_a_log_is_replayed_clients_are_told_to_wait() -> None:
    room = Room()
    (member,), generation = room.stable()
    clock = HandClock()
    later = Room.__new__(Room)
    later.settings, later.clock, later.partition = room.settings, clock, room.partition
    later.random, later.epoch, later.image = room.random, 1, room.image
    clock_advance, clock.advance = clock.advance, lambda seconds=0.0: None  # type: ignore[method-assign]
    later.__post_init__()
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert later.join(member)[0].error is loading
    assert later.sync(member, generation)[0].error is ErrorCode.REBALANCE_IN_PROGRESS
    assert later.beat(member, generation) is ErrorCode.NONE
    assert later.commit(member, generation) == [loading]
    assert later.groups.describe("g").error is loading
    with pytest.raises(ApiError):
        later.groups.list_groups()
    loaded: list[bool] = []
    later.groups.when_loaded(lambda: loaded.append(True))
    clock_advance()
    assert loaded == [True]
    assert later.beat(member, generation) is ErrorCode.NONE
    assert later.groups.describe("g").state == "Stable"


def test_a_log_that_is_not_in_the_page_cache_is_read_from_disk() -> None:
    room = Room()
    room.commit()
    room.partition.log.cold = True
    assert Room(partition=MemoryPartition(room.partition.log)).committed() == 7


def test_a_damaged_log_is_not_served_from() -> None:
    room = Room()
    room.commit()
    room.commit(offsets=[OffsetToCommit("t", 1, 1)])
    damaged = bytearray(room.partition.log.batches[0])
    damaged[-1] ^= 1
    room.partition.log.batches[0] = bytes(damaged)
    later = Room(partition=MemoryPartition(room.partition.log))
    assert later.commit() == [ErrorCode.NOT_COORDINATOR]


def in_transaction(room: Room, offset: int, partition: int = 0) -> None:
    """Append what a transactional producer's offset commit looks like in the log."""
    key = records.offset_key(("g", "t", partition))
    value = records.offset_value(Committed(offset, -1, "", room.clock.wall_ms()))
    batch = build(
        [new_record(value, key)],
        producer_id=PRODUCER,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    room.partition.append_internal(batch, now_ms=0)


def end(room: Room, kind: ControlType) -> None:
    """Append the transaction's marker."""
    marker = build_marker(kind, 0, producer_id=PRODUCER, producer_epoch=0, timestamp=0)
    room.partition.append_internal(marker, now_ms=0)


def replayed(room: Room) -> Room:
    """A coordinator of the whole log, as of now."""
    return Room(partition=MemoryPartition(room.partition.log))


def test_offsets_of_a_transaction_count_from_its_marker_on() -> None:
    room = Room()
    room.commit()
    in_transaction(room, 10)
    pending = replayed(room)
    assert pending.committed() == 7
    assert pending.groups.shard("g").offsets.is_unstable(("g", "t", 0))
    end(room, ControlType.COMMIT)
    assert replayed(room).committed() == 10
    assert not replayed(room).groups.shard("g").offsets.is_unstable(("g", "t", 0))


def test_offsets_of_an_aborted_transaction_never_count() -> None:
    room = Room()
    in_transaction(room, 10)
    end(room, ControlType.ABORT)
    assert replayed(room).committed() is None


def test_an_offset_written_after_a_transactions_stays_when_that_commits() -> None:
    room = Room()
    in_transaction(room, 10)
    room.commit()
    end(room, ControlType.COMMIT)
    assert replayed(room).committed() == 7


def test_a_deletion_takes_offsets_of_open_transactions_with_it() -> None:
    room = Room()
    in_transaction(room, 10)
    later = replayed(room)
    codes: list[ErrorCode] = []
    later.groups.delete("g", codes.append)
    assert codes == [ErrorCode.NONE]
    end(later, ControlType.COMMIT)
    assert replayed(later).committed() is None


def test_records_of_other_kinds_and_damaged_ones_are_passed_over() -> None:
    room = Room()
    strange = [
        (b"\x00\x03\x00\x01x", b"\x00\x00\x00\x00\x00\x05"),
        (b"\x00\x7f", b"whatever"),
        (b"\x00", b""),
        (b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x01", b"\x00\x63"),
        (b"\x00\x02\x00\x01h", b"\x00\x03\xff"),
    ]
    batch = build([new_record(value, key) for key, value in strange])
    room.partition.append_internal(batch, now_ms=0)
    room.commit()
    later = replayed(room)
    assert later.committed() == 7
    assert [one.group_id for one in later.groups.list_groups()] == ["g"]


@pytest.mark.parametrize("name", ["kafka-3.9.2-clean", "kafka-4.3.1-clean"])
def test_committed_offsets_of_a_real_kafka_are_answered(name: str) -> None:
    with gzip.open(GOLDEN / f"{name}.expected.json.gz") as packed:
        expected = json.load(packed)["committed"]
    settings = Settings(offsets_topic_num_partitions=5, offsets_retention_minutes=(1 << 31) - 1)
    room = Room(settings)
    with tarfile.open(GOLDEN / f"{name}.tgz") as archive:
        for index in range(5):
            log = MemoryLog()
            inside = archive.extractfile(
                f"{name}/__consumer_offsets-{index}/00000000000000000000.log"
            )
            assert inside is not None
            log.adopt(inside.read())
            room.groups.led.lead(index, MemoryPartition(log), 1)
    room.clock.advance()
    for group_topic, offsets in expected.items():
        group, topic = group_topic.split("/")
        for partition, offset, metadata in offsets:
            found = room.groups.offset(group, topic, partition)
            assert found is not None
            # The client that wrote them sent its C strings' NULs along, and cuts them off again.
            assert (found.offset, found.metadata.rstrip("\0")) == (offset, metadata)
    assert room.groups.partition_for("g-group") == 2


def commit_in_transaction(room: Room, offset: int, partition: int = 0, topic: str = "t") -> None:
    """TxnOffsetCommit of the transactional producer, of one partition."""
    codes: list[ErrorCode] = []
    wanted = CommitRequest("g", -1, "", None, [OffsetToCommit(topic, partition, offset)])
    room.groups.commit_in_transaction(wanted, PRODUCER, 0, codes.append)
    room.clock.advance()
    assert codes == [ErrorCode.NONE]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_commit_after_a_transactions_offset_outlives_that_transactions_commit(
    restarts: bool,
) -> None:
    room = Room()
    commit_in_transaction(room, 10)
    commit_in_transaction(room, 11, partition=1)
    room.commit()
    room = room.restart() if restarts else room
    room.groups.end_transaction(0, PRODUCER, committed=True)
    assert (room.committed("t", 0), room.committed("t", 1)) == (7, 11)


@pytest.mark.parametrize("restarts", [False, True])
def test_an_offset_an_open_transaction_may_change_does_not_end(restarts: bool) -> None:
    room = Room()
    room.commit()
    commit_in_transaction(room, 10)
    room.clock.advance(6 * 86_400)
    room.commit(offsets=[OffsetToCommit("t", 1, 1)])
    room = room.restart() if restarts else room
    room.clock.advance(2 * 86_400)
    assert (room.committed("t", 0), room.committed("t", 1)) == (7, 1)
    room.groups.end_transaction(0, PRODUCER, committed=False)
    room.clock.advance(3_600)
    assert (room.committed("t", 0), room.committed("t", 1)) == (None, 1)
