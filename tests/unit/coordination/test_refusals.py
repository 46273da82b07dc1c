"""What coordinators refuse and what is so afterwards; replays that end before their time."""

from typing import Any

import pytest

from headrace.coordination.groups.consumer import records as consumer_records
from headrace.coordination.groups.consumer.model import LegacyTopics
from headrace.coordination.groups.messages import CommitRequest, OffsetToCommit
from headrace.coordination.groups.modern.changes import GroupEpoch
from headrace.coordination.groups.share.heartbeat import Heartbeat, validate
from headrace.model.errors import ApiError, ErrorCode
from headrace.record.batch import build, new_record
from headrace.shards.loader import Loader
from headrace.shards.replay_turns import ReplayTurns
from headrace.shards.shard import ShardState
from tests.support.client.consumer_kit import Consumer, cluster, group_of, room
from tests.support.coordination import txn_kit
from tests.support.coordination.groups_kit import (
    HandClock,
    HandTimer,
    InlineDisk,
    MemoryLog,
    MemoryPartition,
    Room,
    Settings,
)
from tests.unit.coordination.test_migration_timers import ASKED, TO_T, classic_group

E = ErrorCode


def test_a_classic_member_syncs_and_beats_in_its_own_generation_and_protocol_only() -> None:
    place, (leader, _), _ = classic_group()
    newcomer = Consumer(place, "new")
    newcomer.beat()
    (joined,) = place.join(leader, **ASKED)
    generation = joined.generation

    def synced(member: str, epoch: int, **said: Any) -> ErrorCode:
        (answer,) = place.sync(member, epoch, **said)
        return answer.error

    assert synced("nobody", generation) is E.UNKNOWN_MEMBER_ID
    assert synced("new", newcomer.epoch) is E.UNKNOWN_MEMBER_ID, "it speaks the newer protocol"
    assert synced(leader, generation - 1) is E.ILLEGAL_GENERATION
    assert synced(leader, generation + 1) is E.ILLEGAL_GENERATION
    assert synced(leader, generation, kind="connect") is E.INCONSISTENT_GROUP_PROTOCOL
    assert synced(leader, generation, protocol="other") is E.INCONSISTENT_GROUP_PROTOCOL
    assert synced(leader, generation, kind="consumer", protocol="range") is E.NONE
    assert place.beat("new", newcomer.epoch) is E.UNKNOWN_MEMBER_ID
    assert place.beat(leader, generation - 1) is E.ILLEGAL_GENERATION
    assert place.beat(leader, generation) is E.NONE


@pytest.mark.parametrize("metadata", [b"", TO_T[:-5]], ids=["empty", "cut"])
def test_a_classic_member_whose_subscription_cannot_be_read_is_refused(metadata: bytes) -> None:
    place, (leader, _), _ = classic_group()
    Consumer(place, "new").beat()
    before = group_of(place).members[leader]
    (answer,) = place.join(leader, **(ASKED | {"protocols": (("range", metadata),)}))
    assert answer.error is E.INCONSISTENT_GROUP_PROTOCOL
    assert group_of(place).members[leader] == before


def test_a_join_that_the_log_does_not_take_has_not_happened() -> None:
    place, (leader, _), _ = classic_group()
    Consumer(place, "new").beat()
    before = dict(group_of(place).members)
    place.partition.refusal = E.NOT_ENOUGH_REPLICAS
    (answer,) = place.join(instance="i", **ASKED)
    assert answer.error is E.COORDINATOR_NOT_AVAILABLE
    assert group_of(place).members == before
    assert group_of(place).static_member("i") is None
    place.partition.refusal = None
    (answer,) = place.join(leader, **ASKED)
    assert answer.error is E.NONE


def test_a_group_stays_a_consumer_group_where_the_log_does_not_take_its_being_classic() -> None:
    place, members, _ = classic_group()
    Consumer(place, "new", instance="i").beat()
    place.partition.refusal = E.NOT_ENOUGH_REPLICAS
    (answer,) = place.join(instance="i", **ASKED)
    assert answer.error is E.COORDINATOR_NOT_AVAILABLE
    assert {*members, "new"} == set(group_of(place).members)
    assert "g" not in place.groups.shard("g").groups


def test_an_assignment_is_not_told_before_what_it_rests_on_is_committed() -> None:
    place, (leader, _), _ = classic_group()
    Consumer(place, "new").beat()
    place.partition.hold = True
    joining = place.join(leader, **ASKED)
    generation = group_of(place).members[leader].standing.epoch
    waiting = place.sync(leader, generation)
    assert len(joining) + len(waiting) == 0
    place.partition.fail(E.NOT_LEADER_OR_FOLLOWER)
    assert [answer.error for answer in joining] == [E.NOT_COORDINATOR]
    assert [answer.error for answer in waiting] == [E.NOT_COORDINATOR]


def test_who_joins_an_empty_consumer_group_that_cannot_be_deleted_is_told_so() -> None:
    place = room()
    only = Consumer(place, "a")
    only.beat()
    only.leave()
    place.partition.refusal = E.NOT_ENOUGH_REPLICAS
    (answer,) = place.join("m", version=3)
    assert (answer.error, answer.member_id) == (E.COORDINATOR_NOT_AVAILABLE, "m")
    assert group_of(place).members == {}


def test_what_another_broker_coordinates_is_neither_deleted_nor_committed_to() -> None:
    place = Room()
    place.stable()
    place.groups.led.resign(0)
    codes: list[ErrorCode] = []
    place.groups.delete("g", codes.append)
    request = CommitRequest("g", -1, "", None, [OffsetToCommit("t", 0, 1)])
    place.groups.commit_in_transaction(request, 7, 0, codes.append)
    place.groups.delete_offsets("g", [("t", 0)], lambda code, _: codes.append(code))
    assert codes == [E.NOT_COORDINATOR] * 3


def share_member(**said: Any) -> Heartbeat:
    plain: dict[str, Any] = {
        "group_id": "g", "member_id": "m", "epoch": 0, "rack_id": None, "topics": ("t",),
        "client_id": "client", "client_host": "/127.0.0.1",
    }  # fmt: skip
    return Heartbeat(**(plain | said))


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"rack_id": " "}, "RackId can't be empty."),
        ({"member_id": ""}, "MemberId can't be empty."),
        ({"group_id": " "}, "GroupId can't be empty."),
        ({"topics": None}, "SubscribedTopicNames must be set in first request."),
        ({"topics": ()}, "SubscribedTopicNames must be set in first request."),
        ({"epoch": -2}, "MemberEpoch is invalid."),
        ({"topics": ("t",) * 1001}, "At most 1000 topics."),
    ],
)
def test_what_no_member_of_a_share_group_may_say(said: dict[str, Any], problem: str) -> None:
    with pytest.raises(ApiError) as caught:
        validate(share_member(**said))
    assert (caught.value.code, caught.value.message) == (E.INVALID_REQUEST, problem)


@pytest.mark.parametrize(
    "said", [{}, {"rack_id": "r"}, {"topics": ("t",) * 1000}, {"epoch": -1, "topics": None}]
)
def test_what_a_member_of_a_share_group_may_say(said: dict[str, Any]) -> None:
    validate(share_member(**said))


# --- replays ----------------------------------------------------------------------------------


def test_what_kafka_4_0_kept_of_a_groups_topics_goes_with_the_groups_next_epoch() -> None:
    """ConsumerGroupPartitionMetadata: read, and never written but to be rid of it."""
    log = MemoryLog()
    for change in (GroupEpoch(3, 0), LegacyTopics(True)):
        key, value = consumer_records.encode("g", change)
        log.append(build([new_record(value, key)]))
    place = Room(Settings(), partition=MemoryPartition(log), image=cluster({"t": 4}))
    legacy, _ = consumer_records.encode("g", LegacyTopics(False))
    assert group_of(place).has_legacy_topics
    Consumer(place, "a").beat()
    assert not group_of(place).has_legacy_topics
    assert place.partition.pairs().count((legacy, None)) == 1
    assert not group_of(place.restart()).has_legacy_topics


class _Cancelled(HandClock):
    """A replay that is cancelled when its work asks for its turn for the `at`-th time."""

    def __init__(self, at: int, *, cold: bool = False) -> None:
        super().__init__()
        self.at = at
        self.told = 0
        self.done: list[object] = []
        log = MemoryLog()
        log.cold = cold
        for _ in range(2):
            log.append(build([new_record(b"v", b"%d" % key) for key in range(3000)]))
        disk: Any = InlineDisk()
        self.loader = Loader(
            log, self, turns=ReplayTurns(self), disk=disk, keyed=True, done=self.done.append
        )
        self.loader.start()
        self.advance()

    def call_later(self, seconds: float, callback: Any) -> HandTimer:
        self.at -= 1
        if self.at == 0:
            self.loader.cancel()
            self.told_before = self.told
        return super().call_later(seconds, callback)

    def replay(self, *_: object) -> None:
        self.told += 1

    def replay_end(self, producer_id: int, *, committed: bool) -> None:
        raise AssertionError("there is no transaction")


@pytest.mark.parametrize("cold", [False, True])
def test_a_replay_that_is_cancelled_at_any_step_tells_nobody_anything_more(cold: bool) -> None:
    whole = _Cancelled(0, cold=cold)
    steps = -whole.at
    assert whole.done == [None]
    assert steps > 3
    for at in range(1, steps + 1):
        replay = _Cancelled(at, cold=cold)
        assert replay.done == []
        assert replay.told == replay.told_before


def test_what_a_read_raises_that_is_no_failure_of_the_log_is_not_swallowed() -> None:
    class Broken(MemoryLog):
        def read_from_disk(self, *_: object, **__: object) -> Any:
            raise ValueError("a mistake")

    log = Broken()
    log.cold = True
    log.append(build([new_record(b"v", b"k")]))
    clock = HandClock()
    disk: Any = InlineDisk()
    target: Any = None
    loader = Loader(log, target, turns=ReplayTurns(clock), disk=disk, keyed=True, done=print)
    loader.start()
    with pytest.raises(ValueError, match="a mistake"):
        clock.advance()


def test_who_asks_whether_a_shard_is_loaded_is_told_now_or_when_it_is() -> None:
    before = Room()
    before.commit()
    partition = MemoryPartition(before.partition.log)
    partition.hold = True
    place = Room(partition=partition)
    shard = place.groups.led.at(0)
    assert shard is not None
    told: list[ShardState] = []
    shard.when_loaded(lambda: told.append(shard.state))
    assert told == []
    partition.flush()
    assert told == [ShardState.ACTIVE]
    shard.when_loaded(lambda: told.append(shard.state))
    assert len(told) == 2
    shard.unload()
    shard.unload()
    assert shard.state is ShardState.CLOSED


def test_a_marker_that_comes_while_a_shard_is_loading_counts_once_it_is_loaded() -> None:
    before = Room()
    codes: list[ErrorCode] = []
    request = CommitRequest("g", -1, "", None, [OffsetToCommit("t", 0, 11)])
    before.groups.commit_in_transaction(request, 7, 0, codes.append)
    before.clock.advance()
    assert codes == [E.NONE]
    partition = MemoryPartition(before.partition.log)
    partition.hold = True
    place = Room(partition=partition)
    shard = place.groups.led.at(0)
    assert shard is not None
    shard.end_transaction(7, committed=True)
    partition.hold = False
    partition.flush()
    assert place.committed() == 11


def test_a_transaction_that_cannot_be_aborted_in_time_is_told_and_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    here = txn_kit.Room(
        txn_kit.Config(transaction_abort_timed_out_transaction_cleanup_interval_ms=1_000)
    )
    txn_kit.begun(here)
    here.partition.refusal = E.NOT_ENOUGH_REPLICAS
    here.clock.advance(62)
    told = [line for line in caplog.messages if "its abort failed" in line]
    assert told
    failed = "the transaction timed out, but its abort failed: COORDINATOR_NOT"
    assert told[0].startswith(f"transactional id {txn_kit.ID}: {failed}")
    assert here.transactions.counts.timed_out == 0
    here.partition.refusal = None
    here.clock.advance(2)
    assert here.transactions.counts.timed_out == 1
