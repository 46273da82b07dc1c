"""Leadership of the internal topics' partitions: what comes with it, and what goes with it."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from headrace.cluster.decisions.orders import Follow, Lead, Orders, Replication
from headrace.coordination.groups.messages import CommitRequest, OffsetToCommit
from headrace.coordination.share.keys import ShareKey
from headrace.coordination.transactions.producers import ProducerEpoch
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
    BrokerId,
    LeaderEpoch,
    TopicPartition,
)
from headrace.testing.disk import SimDisk
from headrace.wire.kafka.coordinator_records.transaction_state import TransactionStatus
from tests.support.coordination import groups_kit, txn_kit
from tests.support.coordination.groups_kit import MemoryPartition
from tests.support.coordination.txn_kit import P0, begun
from tests.support.processes import broker as real

_E = ErrorCode


def test_a_group_is_not_answered_for_until_what_a_former_leader_left_is_committed() -> None:
    before = groups_kit.Room()
    before.commit()
    partition = MemoryPartition(before.partition.log)
    partition.hold = True
    room = groups_kit.Room(partition=partition)
    room.clock.advance(60)
    with pytest.raises(ApiError, match="COORDINATOR_LOAD_IN_PROGRESS"):
        room.committed()
    assert room.commit() == [_E.COORDINATOR_LOAD_IN_PROGRESS]
    partition.hold = False
    partition.flush()
    assert room.committed() == 7
    assert room.commit() == [_E.NONE]


def test_no_marker_is_sent_until_what_a_former_leader_decided_is_committed() -> None:
    before = txn_kit.Room()
    who = begun(before)
    before.data(P0).refusal = _E.NOT_ENOUGH_REPLICAS
    before.end(who)
    before.data(P0).refusal = None
    partition = MemoryPartition(before.partition.log)
    partition.hold = True
    room = txn_kit.Room(partition=partition, participants=before.participants, epoch=1)
    room.clock.advance(60)
    assert room.init().code is _E.COORDINATOR_LOAD_IN_PROGRESS
    assert room.data(P0).values() == ["a"]
    partition.hold = False
    partition.flush()
    assert room.data(P0).values() == ["a", "COMMIT"]
    assert room.state().status is TransactionStatus.COMPLETE_COMMIT


def test_a_leadership_that_ends_before_that_serves_nothing_when_it_is_committed() -> None:
    before = groups_kit.Room()
    before.commit()
    partition = MemoryPartition(before.partition.log)
    partition.hold = True
    room = groups_kit.Room(partition=partition)
    room.groups.led.resign(0)
    partition.flush()
    assert room.commit() == [_E.NOT_COORDINATOR]
    assert room.clock.timers == 0


def test_who_leads_on_under_a_later_epoch_keeps_who_waits_and_marks_with_that_epoch() -> None:
    groups = groups_kit.Room()
    (leader, follower), generation = groups.stable(2)
    joining = groups.join(leader)
    groups.groups.led.lead(0, groups.partition, 1)
    assert joining == []
    assert groups.beat(follower, generation) is _E.REBALANCE_IN_PROGRESS
    room = txn_kit.Room()
    who = begun(room)
    room.transactions.led.lead(0, room.partition, 7)
    assert room.end(who).code is _E.NONE
    with pytest.raises(ApiError, match="TRANSACTION_COORDINATOR_FENCED"):
        room.data(P0).append_marker(who.producer_id, who.epoch, commit=True, coordinator_epoch=6)


def test_a_log_that_could_not_be_read_is_read_again_under_a_later_epoch() -> None:
    before = groups_kit.Room()
    before.commit()
    log = before.partition.log
    whole = log.batches[0]
    log.batches[0] = whole[:-1] + bytes([whole[-1] ^ 1])
    room = groups_kit.Room(partition=MemoryPartition(log))
    assert room.commit() == [_E.NOT_COORDINATOR]
    log.batches[0] = whole
    room.groups.led.lead(0, room.partition, 1)
    room.clock.advance()
    assert room.committed() == 7


def test_a_topic_that_was_made_anew_is_loaded_anew() -> None:
    room = groups_kit.Room(epoch=5)
    room.commit()
    pending = room.commit(turn=False)
    room.groups.led.lead(0, MemoryPartition(), 0)
    assert pending == [_E.NOT_COORDINATOR]
    assert room.committed() is None


def test_leading_again_while_a_load_is_under_way_begins_it_anew() -> None:
    before = groups_kit.Room()
    before.commit()
    log = before.partition.log
    log.cold = True
    room = groups_kit.Room()
    room.groups.led.resign(0)
    room.disk.hold = True
    room.groups.led.lead(0, MemoryPartition(log), 1)
    room.clock.advance()
    room.groups.led.resign(0)
    assert room.commit() == [_E.NOT_COORDINATOR]
    before.commit(offsets=[OffsetToCommit("t", 0, 9)])
    room.groups.led.lead(0, MemoryPartition(log), 3)
    room.clock.advance()
    assert room.commit() == [_E.COORDINATOR_LOAD_IN_PROGRESS]
    room.disk.release()
    room.clock.advance(1)
    assert room.committed() == 9


def orders(
    here: real.Room, topic: str, epoch: int, *, leads: bool, replicas: Sequence[int]
) -> Orders:
    broker = here.broker
    own = broker.broker_id
    members = tuple(BrokerId(number) for number in replicas)
    replication = Replication(
        TopicPartition(topic, 0), broker.image.topics[topic].topic_id,
        own if leads else members[-1], LeaderEpoch(epoch), members, members, epoch,
    )  # fmt: skip
    order = Lead(replication) if leads else Follow(replication)
    return Orders(here.controller.applier.controller_epoch, -1, [order])


def living_in_0(partition_for: Callable[[str], int]) -> str:
    """A name that is coordinated by the topic's first partition."""
    return next(name for name in map(str, range(999)) if partition_for(name) == 0)


def commit(here: real.Room, codes: list[ErrorCode]) -> None:
    groups = here.coordinators.groups
    offset = OffsetToCommit("t", 0, 5)
    request = CommitRequest(living_in_0(groups.partition_for), -1, "", None, [offset])
    groups.commit(request, codes.append)


def initialize(here: real.Room, codes: list[ErrorCode]) -> None:
    transactions = here.coordinators.transactions

    def done(result: ProducerEpoch | ApiError) -> None:
        codes.append(result.code if isinstance(result, ApiError) else _E.NONE)

    transactions.initialize(living_in_0(transactions.led.partition_for), 1000, None, done)


def keep(here: real.Room, codes: list[ErrorCode]) -> None:
    states = here.coordinators.share.states
    keys = [ShareKey("g", bytes(15) + bytes([number]), 0) for number in range(256)]
    key = next(key for key in keys if states.partition_for(key) == 0)
    states.initialize([(key, 7)], 1, lambda error: codes.append(error or _E.NONE))


Ask = Callable[[real.Room, list[ErrorCode]], None]


def told(here: real.Room, ask: Ask) -> list[ErrorCode]:
    codes: list[ErrorCode] = []
    ask(here, codes)
    return codes


@pytest.mark.parametrize(
    ("topic", "ask"),
    [(OFFSETS_TOPIC, commit), (TRANSACTIONS_TOPIC, initialize), (SHARE_STATE_TOPIC, keep)],
)
def test_what_no_follower_has_yet_is_refused_when_its_leader_follows(
    tmp_path: Path, topic: str, ask: Ask
) -> None:
    async def story() -> None:
        async with real.room(tmp_path, SimDisk()) as here:
            await here.controller.ensure_internal_topic(topic)
            own, take = here.broker.broker_id, here.controller.applier.take
            both = (own, own + 1)
            await take(orders(here, topic, 10, leads=True, replicas=both))
            log = here.broker.partition(topic, 0).log
            pending = told(here, ask)
            await real.until(lambda: log.end_offset == log.flushed_offset > 0)
            assert pending == []
            await take(orders(here, topic, 11, leads=False, replicas=both))
            assert pending == [_E.NOT_COORDINATOR]
            assert told(here, ask) == [_E.NOT_COORDINATOR]
            await take(orders(here, topic, 12, leads=True, replicas=both))
            assert told(here, ask) == [_E.COORDINATOR_LOAD_IN_PROGRESS], "nobody has it still"
            await take(orders(here, topic, 13, leads=True, replicas=(own,)))
            await real.until(lambda: told(here, ask) != [_E.COORDINATOR_LOAD_IN_PROGRESS])
            answered = told(here, ask)
            await real.until(lambda: answered)
            assert answered == [_E.NONE]

    real.play(story())
