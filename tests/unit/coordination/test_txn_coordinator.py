"""The transaction coordinator: fencing, epochs, ends, markers, timeouts, kills in every phase."""

import pytest

from headrace.coordination.transactions import records
from headrace.coordination.transactions.describe import Filter
from headrace.coordination.transactions.producers import ProducerEpoch
from headrace.coordination.transactions.transaction_state import EPOCH_LAST, TransactionState
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.wire.kafka.coordinator_records.transaction_state import TransactionStatus
from tests.support.txn_kit import ID, P0, P1, P2, TV1, TV2, Config, Room

_E = ErrorCode
_S = TransactionStatus


def begun(room: Room, version: int = TV1) -> ProducerEpoch:
    """A producer with a transaction open in two partitions."""
    who = room.producer()
    assert room.add(who, P0, P1, version=version).code is _E.NONE
    room.write(who, P0, "a", 0)
    room.write(who, P1, "b", 0)
    return who


# Producer ids and epochs


def test_a_new_id_begins_at_epoch_0_and_each_initialization_fences_the_one_before() -> None:
    room = Room()
    first = room.producer()
    second = room.producer()
    assert (first.epoch, second.epoch) == (0, 1)
    assert first.producer_id == second.producer_id
    assert room.add(first, P0).code is _E.PRODUCER_FENCED
    assert room.add(second, P0).code is _E.NONE


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_out_of_bounds_is_refused(timeout_ms: int) -> None:
    assert Room().init(timeout_ms=timeout_ms).code is _E.INVALID_TRANSACTION_TIMEOUT


def test_a_producer_that_names_its_epoch_gets_the_next_and_asked_again_the_same() -> None:
    room = Room()
    first = room.producer()
    second = room.init(expected=first).result
    assert second == ProducerEpoch(first.producer_id, 1)
    assert room.init(expected=first).result == second
    assert room.init(expected=ProducerEpoch(first.producer_id, 7)).code is _E.PRODUCER_FENCED


def test_a_producer_that_names_anothers_id_is_fenced() -> None:
    room = Room()
    room.producer()
    assert room.init(expected=ProducerEpoch(5, 0)).code is _E.PRODUCER_FENCED


def test_an_initialization_in_between_ends_the_right_to_name_the_epoch_before() -> None:
    room = Room()
    first = room.producer()
    room.producer()
    assert room.init(expected=first).code is _E.PRODUCER_FENCED


def at_epoch(room: Room, epoch: int) -> ProducerEpoch:
    """A producer whose id has come to `epoch`, as the log says."""
    who = room.producer()
    record = records.value(TransactionState(who.producer_id, epoch, 60_000, updated_ms=1))
    room.shard.apply(0, None, records.key(ID), record)
    return ProducerEpoch(who.producer_id, epoch)


def test_used_up_epochs_make_a_new_producer_id() -> None:
    room = Room()
    last = at_epoch(room, EPOCH_LAST)
    fresh = room.producer()
    assert fresh.epoch == 0
    assert fresh.producer_id != last.producer_id


def test_used_up_epochs_make_a_new_producer_id_for_who_names_the_last_one_twice() -> None:
    room = Room()
    last = at_epoch(room, EPOCH_LAST)
    fresh = room.init(expected=last).result
    assert fresh.epoch == 0
    again = room.init(expected=last)
    assert again.result == fresh


def test_an_open_transaction_of_a_used_up_epoch_is_aborted_before_the_new_id_is_given() -> None:
    room = Room()
    last = at_epoch(room, EPOCH_LAST)
    room.add(last, P0)
    room.write(last, P0, "a", 0)
    fresh = room.producer()
    assert fresh.producer_id != last.producer_id
    assert room.data(P0).outcome("a") == "ABORT"


def test_more_ids_than_the_limit_are_refused_and_known_ones_are_not() -> None:
    room = Room(Config(transactional_ids_max=1))
    room.producer()
    assert room.init("other").code is _E.POLICY_VIOLATION
    assert room.init().code is _E.NONE


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


# Asking twice, and too late


@pytest.mark.parametrize("commit", [True, False])
def test_the_same_end_asked_again_is_answered_again_and_another_is_refused(commit: bool) -> None:
    room = Room()
    who = begun(room)
    assert room.end(who, commit).code is _E.NONE
    assert room.end(who, commit).code is _E.NONE
    assert room.end(who, not commit).code is _E.INVALID_TXN_STATE
    assert room.data(P0).values() == ["a", "COMMIT" if commit else "ABORT"]


def test_an_end_without_a_transaction_is_refused() -> None:
    room = Room()
    assert room.end(room.producer()).code is _E.INVALID_TXN_STATE
    assert room.end(ProducerEpoch(1, 1), name="other").code is _E.INVALID_PRODUCER_ID_MAPPING


def test_version_2_gives_each_transaction_an_epoch_of_its_own() -> None:
    room = Room()
    who = begun(room, TV2)
    following = room.end(who, version=TV2).result
    assert following == ProducerEpoch(who.producer_id, who.epoch + 1)
    assert room.end(who, version=TV2).result == following
    assert room.data(P0).entries[-1].epoch == following.epoch


@pytest.mark.parametrize("commit", [True, False])
def test_a_late_end_never_touches_the_next_transaction(commit: bool) -> None:
    room = Room()
    who = begun(room, TV2)
    following = room.end(who, commit, version=TV2).result
    room.add(following, P0, version=TV2)
    room.write(following, P0, "next", 0)
    assert room.end(who, commit, version=TV2).code is _E.PRODUCER_FENCED
    assert room.end(who, not commit, version=TV2).code is _E.PRODUCER_FENCED
    assert room.state().status is _S.ONGOING
    assert room.data(P0).outcome("next") is None


def test_a_late_batch_of_version_2_is_refused_by_its_epoch() -> None:
    room = Room()
    who = begun(room, TV2)
    room.end(who, version=TV2)
    with pytest.raises(ApiError) as refused:
        room.write(who, P0, "late", 1)
    assert refused.value.code is _E.PRODUCER_FENCED


def test_version_2_aborts_an_empty_transaction_to_move_its_epoch_on() -> None:
    room = Room()
    who = room.producer()
    assert room.end(who, commit=True, version=TV2).code is _E.INVALID_TXN_STATE
    assert room.end(who, commit=False, version=TV2).result.epoch == who.epoch + 1


def test_version_2_goes_on_under_a_new_id_where_the_epochs_are_used_up() -> None:
    room = Room()
    last = at_epoch(room, EPOCH_LAST)
    room.add(last, P0, version=TV2)
    room.write(last, P0, "a", 0)
    room.data(P0).hold = True
    fresh = room.end(last, version=TV2).result
    assert fresh.epoch == 0
    assert fresh.producer_id != last.producer_id
    asked = room.add(fresh, P1, version=TV2)
    assert asked.waits
    room.data(P0).flush()
    assert asked.code is _E.NONE
    assert room.end(last, version=TV2).code is _E.INVALID_PRODUCER_ID_MAPPING


def test_the_end_under_a_used_up_epoch_is_answered_again() -> None:
    room = Room()
    last = at_epoch(room, EPOCH_LAST)
    room.add(last, P0, version=TV2)
    fresh = room.end(last, version=TV2).result
    assert room.end(last, version=TV2).result == fresh


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


# Kills


@pytest.mark.parametrize("version", [TV1, TV2])
def test_a_kill_while_a_transaction_is_open_leaves_it_open(version: int) -> None:
    room = Room()
    who = begun(room, version)
    after = room.restart()
    assert after.state().status is _S.ONGOING
    after.write(who, P0, "more", 1)
    assert after.end(who, version=version).code is _E.NONE
    assert after.data(P0).outcome("more") == after.data(P1).outcome("b") == "COMMIT"


@pytest.mark.parametrize("version", [TV1, TV2])
def test_a_kill_after_the_decision_writes_the_markers_that_are_missing(version: int) -> None:
    room = Room()
    who = begun(room, version)
    room.data(P1).refusal = _E.NOT_ENOUGH_REPLICAS
    room.end(who, version=version)
    assert room.data(P1).values() == ["b"]
    room.data(P1).refusal = None
    after = room.restart()
    assert after.state().status is _S.COMPLETE_COMMIT
    assert after.data(P0).outcome("a") == after.data(P1).outcome("b") == "COMMIT"
    assert after.end(who, version=version).code is _E.NONE


def test_a_kill_between_the_markers_and_their_note_changes_nothing_for_readers() -> None:
    room = Room()
    who = begun(room)
    room.end(who)
    room.partition.log.batches.pop()
    decided = room.restart()
    assert decided.state().status is _S.COMPLETE_COMMIT
    assert decided.data(P0).values() == ["a", "COMMIT", "COMMIT"]
    decided.add(who, P0)
    decided.write(who, P0, "next", 1)
    assert decided.data(P0).outcome("next") is None


def test_a_decision_that_was_not_flushed_is_not_acted_on_after_a_power_cut() -> None:
    room = Room()
    who = begun(room)
    room.partition.hold = True
    room.end(who)
    after = room.restart(lose_unflushed=True)
    assert after.state().status is _S.ONGOING
    assert after.data(P0).values() == ["a"]
    assert after.end(who, commit=False).code is _E.NONE


def test_what_was_decided_waits_for_the_cluster_to_be_known() -> None:
    room = Room()
    who = begun(room)
    room.data(P0).refusal = room.data(P1).refusal = _E.NOT_LEADER_OR_FOLLOWER
    room.end(who)
    room.data(P0).refusal = room.data(P1).refusal = None
    after = room.restart(joined=False)
    assert after.data(P0).values() == ["a"]
    after.transactions.begin()
    assert after.data(P0).values() == ["a", "COMMIT"]
    assert after.data(P1).values() == ["b", "COMMIT"]


def test_whoever_waits_is_told_when_another_broker_leads() -> None:
    room = Room()
    who = begun(room)
    room.data(P1).hold = True
    room.end(who)
    asked = room.add(who, P2)
    room.transactions.led.resign(0)
    assert asked.code is _E.NOT_COORDINATOR
    assert room.init().code is _E.NOT_COORDINATOR


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


def test_a_state_survives_its_record() -> None:
    partitions = frozenset({P0, P1, TopicPartition("u", 7)})
    state = TransactionState(5, 3, 60_000, _S.PREPARE_ABORT, partitions, 10, 20, -1, 5, 6, TV2)
    assert records.parse_value(records.value(state)) == state
