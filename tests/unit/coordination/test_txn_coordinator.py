"""The transaction coordinator: a transaction's way, its end by timeout, what the admin sees."""

import pytest

from headrace.coordination.transactions import records
from headrace.coordination.transactions.describe import Filter
from headrace.coordination.transactions.limits import TransactionLimits
from headrace.coordination.transactions.producers import ProducerEpoch
from headrace.model.errors import ApiError, ErrorCode
from headrace.wire.kafka.coordinator_records.transaction_state import TransactionStatus
from tests.support.coordination.txn_kit import ID, P0, P1, P2, TV1, TV2, Config, Room, begun

_E = ErrorCode
_S = TransactionStatus


# A transaction's way


@pytest.mark.parametrize("version", [TV1, TV2])
@pytest.mark.parametrize("commit", [True, False])
def test_every_partition_of_a_transaction_gets_the_marker_of_its_end(
    version: int, commit: bool
) -> None:
    room = Room()
    who = begun(room, version)
    assert room.end(who, commit, version=version).code is _E.NONE
    marker = "COMMIT" if commit else "ABORT"
    assert room.data(P0).values() == ["a", marker]
    assert room.data(P1).values() == ["b", marker]
    assert room.data(P2).values() == []
    assert room.state().status is (_S.COMPLETE_COMMIT if commit else _S.COMPLETE_ABORT)
    assert room.participants.told == [(P0, who.producer_id, commit), (P1, who.producer_id, commit)]


def test_the_log_tells_kafkas_story() -> None:
    room = Room()
    who = begun(room)
    room.end(who)
    stories = [records.parse_value(value or b"") for _, value in room.partition.pairs()]
    told = [(one.status, len(one.partitions)) for one in stories]
    assert told == [
        (_S.EMPTY, 0),
        (_S.ONGOING, 2),
        (_S.PREPARE_COMMIT, 2),
        (_S.COMPLETE_COMMIT, 0),
    ]


def test_an_answer_waits_until_the_decision_is_committed_and_markers_come_after() -> None:
    room = Room()
    who = begun(room)
    room.partition.hold = True
    asked = room.end(who)
    assert asked.waits
    assert room.data(P0).values() == ["a"]
    room.partition.flush()
    assert asked.code is _E.NONE
    assert room.data(P0).values() == ["a", "COMMIT"]


def test_the_next_transaction_waits_for_the_markers_of_the_one_before() -> None:
    room = Room()
    who = begun(room)
    room.data(P1).hold = True
    assert room.end(who).code is _E.NONE
    asked = room.add(who, P2)
    assert asked.waits
    room.data(P1).flush()
    assert asked.code is _E.NONE
    assert room.state().partitions == {P2}


def test_waiting_for_markers_has_an_end() -> None:
    room = Room()
    who = begun(room)
    room.data(P1).hold = True
    room.end(who)
    asked = room.add(who, P2)
    room.clock.advance(2)
    assert asked.code is _E.CONCURRENT_TRANSACTIONS
    room.data(P1).flush()
    assert room.add(who, P2).code is _E.NONE


def test_a_partition_that_is_away_gets_its_marker_when_it_is_back() -> None:
    room = Room()
    who = begun(room)
    room.data(P1).refusal = _E.NOT_ENOUGH_REPLICAS
    assert room.end(who).code is _E.NONE
    assert room.state().status is _S.PREPARE_COMMIT
    room.clock.advance(1)
    room.data(P1).refusal = None
    room.clock.advance(1)
    assert room.data(P1).values() == ["b", "COMMIT"]
    assert room.data(P0).values() == ["a", "COMMIT"]
    assert room.state().status is _S.COMPLETE_COMMIT


def test_all_markers_are_asked_for_together_and_so_are_those_that_were_refused() -> None:
    room = Room()
    who = begun(room)
    for partition in (P0, P1):
        room.data(partition).refusal = _E.NOT_LEADER_OR_FOLLOWER
    room.end(who)
    asked, retry = room.participants.asked, TransactionLimits.marker_retry_ms / 1000
    assert asked == [[P0, P1]]
    room.clock.advance(retry)
    assert asked == [[P0, P1]] * 2
    room.data(P0).refusal = None
    room.clock.advance(retry)
    assert asked == [[P0, P1]] * 3
    room.data(P1).refusal = None
    room.clock.advance(retry)
    assert asked == [*[[P0, P1]] * 3, [P1]]
    assert room.state().status is _S.COMPLETE_COMMIT


def test_a_partition_that_is_unknown_elsewhere_is_asked_again_until_its_topic_is_gone() -> None:
    room = Room()
    who = begun(room)
    room.data(P1).refusal = _E.UNKNOWN_TOPIC_OR_PARTITION
    room.end(who)
    assert room.state().status is _S.PREPARE_COMMIT
    del room.participants.partitions[P1]
    room.clock.advance(1)
    assert room.state().status is _S.COMPLETE_COMMIT


def test_a_partition_whose_topic_is_deleted_holds_nobody_up() -> None:
    room = Room()
    who = begun(room)
    del room.participants.partitions[P1]
    assert room.end(who).code is _E.NONE
    assert room.state().status is _S.COMPLETE_COMMIT


def test_a_decision_that_cannot_be_written_is_none() -> None:
    room = Room()
    who = begun(room)
    room.partition.refusal = _E.NOT_ENOUGH_REPLICAS
    assert room.end(who).code is _E.COORDINATOR_NOT_AVAILABLE
    assert room.state().status is _S.ONGOING
    room.partition.refusal = None
    assert room.end(who, commit=False).code is _E.NONE
    assert room.data(P0).outcome("a") == "ABORT"


def test_an_id_that_could_not_be_written_is_not_known() -> None:
    room = Room()
    room.partition.refusal = _E.NOT_ENOUGH_REPLICAS
    assert room.init().code is _E.COORDINATOR_NOT_AVAILABLE
    assert room.shard.transactions == {}


def test_partitions_that_are_in_already_are_not_written_again() -> None:
    room = Room()
    who = begun(room)
    before = room.partition.log.end_offset
    assert room.add(who, P1).code is _E.NONE
    assert room.partition.log.end_offset == before


def test_a_batch_for_a_partition_that_is_not_in_the_transaction_is_refused() -> None:
    room = Room()
    who = begun(room)
    with pytest.raises(ApiError) as refused:
        room.write(who, P2, "c", 0)
    assert refused.value.code is _E.INVALID_TXN_STATE


def test_a_batch_that_comes_after_the_end_opens_nothing() -> None:
    room = Room()
    who = begun(room)
    room.end(who)
    with pytest.raises(ApiError) as refused:
        room.write(who, P0, "late", 1)
    assert refused.value.code is _E.INVALID_TXN_STATE


def test_a_batch_waits_for_its_partitions_entry_to_be_committed() -> None:
    room = Room()
    who = room.producer()
    room.partition.hold = True
    room.add(who, P0)
    with pytest.raises(ApiError) as refused:
        room.write(who, P0, "early", 0)
    assert refused.value.code is _E.CONCURRENT_TRANSACTIONS
    room.partition.flush()
    room.write(who, P0, "a", 0)


# Zombies and timeouts


@pytest.mark.parametrize("version", [TV1, TV2])
def test_a_new_producer_aborts_what_the_one_before_left_open(version: int) -> None:
    room = Room()
    zombie = begun(room, version)
    fresh = room.producer()
    assert fresh.epoch > zombie.epoch
    assert room.data(P0).outcome("a") == room.data(P1).outcome("b") == "ABORT"
    assert room.end(zombie, version=version).code is _E.PRODUCER_FENCED
    assert room.add(zombie, P0).code is _E.PRODUCER_FENCED
    room.add(fresh, P0)
    room.write(fresh, P0, "fresh", 0)
    assert room.end(fresh).code is _E.NONE


def test_a_new_producer_gets_its_answer_after_the_abort_is_everywhere() -> None:
    room = Room()
    begun(room)
    room.data(P1).hold = True
    asked = room.init()
    assert asked.waits
    room.data(P1).flush()
    assert asked.code is _E.NONE


@pytest.mark.parametrize("version", [TV1, TV2])
def test_a_transaction_that_takes_too_long_is_aborted(version: int) -> None:
    room = Room()
    who = begun(room, version)
    room.clock.advance(59)
    assert room.state().status is _S.ONGOING
    room.clock.advance(12)
    assert room.state().status is _S.COMPLETE_ABORT
    assert room.data(P0).values() == ["a", "ABORT"]
    refused = _E.INVALID_TXN_STATE if version == TV2 else _E.PRODUCER_FENCED
    assert room.end(who, commit=True, version=version).code is refused


def test_what_becomes_of_transactions_is_counted_once_each() -> None:
    room = Room()
    counts = room.transactions.counts
    for commit in (True, False, True):
        who = room.producer()
        room.add(who, P0)
        room.end(who, commit)
        room.end(who, commit)
    assert (counts.committed, counts.aborted, counts.timed_out) == (2, 1, 0)
    begun(room)
    room.clock.advance(71)
    assert (counts.committed, counts.aborted, counts.timed_out) == (2, 2, 1)


def test_it_is_known_which_transactions_are_open_since_when_and_which_are_ending() -> None:
    room = Room()
    began_ms = room.clock.wall_ms()
    who = begun(room)
    room.clock.advance(5)
    assert room.transactions.open_since_ms() == [began_ms]
    room.data(P1).hold = True
    room.end(who)
    assert room.transactions.open_since_ms() == []
    assert list(room.shard.ending) == [ID]
    assert room.transactions.counts.committed == 0
    room.data(P1).flush()
    room.clock.advance()
    assert not room.shard.ending
    assert room.transactions.counts.committed == 1


def test_a_producer_whose_transaction_timed_out_goes_on_with_the_next_epoch() -> None:
    room = Room()
    who = begun(room)
    room.clock.advance(71)
    assert room.init(expected=who).result == ProducerEpoch(who.producer_id, who.epoch + 1)


def test_an_id_nobody_uses_is_forgotten_and_one_in_use_is_not() -> None:
    room = Room(Config(transactional_id_expiration_ms=3_600_000))
    room.producer("idle")
    busy = room.producer("busy", 900_000)
    room.clock.advance(3 * 3600)
    assert "idle" not in room.shard.transactions
    assert room.partition.pairs()[-1][1] is None
    again = room.producer("idle")
    assert again.epoch == 0
    assert again.producer_id not in (busy.producer_id, 1001)


# What the admin sees


def test_a_transaction_is_described_with_its_partitions() -> None:
    room = Room()
    who = begun(room)
    found = room.transactions.describe_transaction(ID)
    assert (found.status, found.producer_id, found.epoch) == ("Ongoing", *who)
    assert found.partitions == [P0, P1]
    assert found.started_ms > 0
    with pytest.raises(ApiError) as refused:
        room.transactions.describe_transaction("other")
    assert refused.value.code is _E.TRANSACTIONAL_ID_NOT_FOUND


def test_transactions_are_listed_by_state_producer_and_age() -> None:
    room = Room()
    begun(room)
    idle = room.producer("idle")

    def listed(wanted: Filter) -> list[str]:
        return [one.transactional_id for one in room.transactions.list_transactions(wanted)]

    assert listed(Filter.of()) == [ID, "idle"]
    assert listed(Filter.of(["Ongoing"])) == [ID]
    assert listed(Filter.of(["Nonsense"])) == []
    assert Filter.of(["Nonsense"]).unknown == ["Nonsense"]
    assert listed(Filter.of(producer_ids=[idle.producer_id])) == ["idle"]
    room.clock.advance(5)
    assert listed(Filter.of(["Ongoing"], older_than_ms=4000)) == [ID]
    assert listed(Filter.of(["Ongoing"], older_than_ms=6000)) == []
