"""Transactions and what is waited for: markers, retries, checks; to the moment, and cleared up."""

import pytest

from headrace.coordination.transactions.describe import Filter
from headrace.coordination.transactions.producers import TV2, ProducerEpoch
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.wire.kafka.coordinator_records.transaction_state import TransactionStatus
from tests.support.coordination.txn_kit import ID, P0, P1, P2, Asked, Config, Room

_E = ErrorCode
_S = TransactionStatus


def ending(room: Room) -> ProducerEpoch:
    """A producer whose transaction is decided; its marker in P1 is not committed."""
    who = room.producer()
    room.add(who, P1, P0)
    room.data(P1).hold = True
    assert room.end(who).code is _E.NONE
    assert room.state().status is _S.PREPARE_COMMIT
    return who


def test_a_request_waits_a_second_for_the_markers_and_is_then_told_to_ask_again() -> None:
    room = Room()
    who = ending(room)
    asked = room.add(who, P2)
    room.clock.advance(0.9995)
    assert asked.waits
    room.clock.advance(0.001)
    assert asked.code is _E.CONCURRENT_TRANSACTIONS
    room.data(P1).flush()
    room.clock.advance()
    assert (len(asked.answers), room.state().status) == (1, _S.COMPLETE_COMMIT)


def test_a_broker_that_asks_for_its_client_is_answered_at_once() -> None:
    """Other brokers' questions stand behind this one: it is asked again."""
    room = Room()
    who = ending(room)
    codes: list[ErrorCode] = []

    def added(error: ApiError | None) -> None:
        codes.append(_E.NONE if error is None else error.code)

    room.transactions.add(ID, who, [P2], TV2, added, waits=False)
    assert codes == [_E.CONCURRENT_TRANSACTIONS]


def test_those_who_wait_go_on_in_the_order_in_which_they_came_and_no_deadline_is_left() -> None:
    room = Room()
    who = ending(room)
    first, second = room.add(who, P0), room.init()
    assert first.waits
    assert second.waits
    room.data(P1).hold = False
    room.data(P1).flush()
    room.clock.advance()
    assert first.code is _E.NONE
    assert second.result == ProducerEpoch(who.producer_id, who.epoch + 2)
    room.clock.advance(5)
    assert (len(first.answers), len(second.answers)) == (1, 1)


def test_only_so_many_wait_for_one_id(monkeypatch: pytest.MonkeyPatch) -> None:
    room = Room()
    who = ending(room)
    monkeypatch.setattr(room.shard.limits, "waiting_max", 2)
    asked = [room.add(who, P2) for _ in range(3)]
    assert [one.waits for one in asked] == [True, True, False]
    assert asked[2].code is _E.CONCURRENT_TRANSACTIONS


def test_a_marker_that_was_refused_is_written_again_a_tenth_of_a_second_later() -> None:
    room = Room()
    who = room.producer()
    room.add(who, P0, P1)
    room.data(P1).refusal = _E.NOT_ENOUGH_REPLICAS
    room.end(who)
    assert room.data(P0).values() == ["COMMIT"]
    room.data(P1).refusal = None
    room.clock.advance(0.09995)
    assert room.data(P1).values() == []
    room.clock.advance(0.0001)
    assert room.data(P1).values() == ["COMMIT"]
    assert room.data(P0).values() == ["COMMIT"]
    assert room.state().status is _S.COMPLETE_COMMIT


def test_a_completion_that_was_refused_is_written_again_a_tenth_of_a_second_later() -> None:
    room = Room()
    ending(room)
    room.partition.refusal = _E.NOT_ENOUGH_REPLICAS
    room.data(P1).flush()
    room.partition.refusal = None
    room.clock.advance(0.09995)
    assert room.state().status is _S.PREPARE_COMMIT
    room.clock.advance(0.0001)
    assert room.state().status is _S.COMPLETE_COMMIT
    assert room.transactions.counts.committed == 1
    assert room.data(P1).values() == ["COMMIT"]


def test_every_partitions_owner_is_told_once_of_how_the_transaction_ended() -> None:
    room = Room()
    who = room.producer()
    room.add(who, P1, P0)
    room.end(who, commit=False)
    assert room.participants.told == [(P0, who.producer_id, False), (P1, who.producer_id, False)]
    room.add(who, P1)
    room.end(who)
    assert room.participants.told[2:] == [(P1, who.producer_id, True)]


def test_a_transaction_is_aborted_with_the_check_at_which_its_time_is_over() -> None:
    room = Room(Config(transaction_abort_timed_out_transaction_cleanup_interval_ms=1_000))
    who = room.producer(timeout_ms=30_000)
    room.add(who, P0)
    room.clock.advance(29.9)
    assert room.state().status is _S.ONGOING
    room.clock.advance(0.2)
    assert room.state().status is _S.COMPLETE_ABORT
    assert room.data(P0).values() == ["ABORT"]
    assert room.transactions.counts.timed_out == 1
    room.clock.advance(60)
    assert room.transactions.counts.timed_out == 1


def test_open_transactions_are_looked_at_every_ten_seconds_and_ids_every_hour() -> None:
    room = Room(Config(transactional_id_expiration_ms=1))
    who = room.producer(timeout_ms=1)
    room.add(who, P0)
    room.clock.advance(9.9)
    assert room.state().status is _S.ONGOING
    room.clock.advance(0.2)
    assert room.state().status is _S.COMPLETE_ABORT
    room.clock.advance(3_589.8)
    assert ID in room.shard.transactions
    room.clock.advance(0.2)
    assert room.shard.transactions == {}


def test_an_id_is_forgotten_with_the_check_at_which_its_time_is_over() -> None:
    room = Room(
        Config(
            transactional_id_expiration_ms=60_000,
            transaction_remove_expired_transaction_cleanup_interval_ms=1_000,
        )
    )
    room.producer()
    room.clock.advance(59.9)
    assert ID in room.shard.transactions
    room.clock.advance(0.2)
    assert ID not in room.shard.transactions
    assert room.partition.pairs()[-1][1] is None
    assert room.restart().shard.transactions == {}


def test_with_the_coordinator_all_its_timers_end() -> None:
    room = Room()
    who = ending(room)
    waiting = room.add(who, P2)
    room.transactions.close()
    assert waiting.code is _E.NOT_COORDINATOR
    assert room.clock.timers == 0
    room.data(P1).flush()
    room.clock.advance(60)
    assert room.participants.told == [(P0, who.producer_id, True), (P1, who.producer_id, True)]
    assert room.init().code is _E.NOT_COORDINATOR


@pytest.mark.parametrize(
    ("timeout_ms", "code"),
    [
        (0, _E.INVALID_TRANSACTION_TIMEOUT),
        (1, _E.NONE),
        (900_000, _E.NONE),
        (900_001, _E.INVALID_TRANSACTION_TIMEOUT),
    ],
)
def test_a_transaction_may_take_up_to_a_quarter_of_an_hour(
    timeout_ms: int, code: ErrorCode
) -> None:
    assert Room().init(timeout_ms=timeout_ms).code is code


def test_as_many_ids_are_known_as_may_be() -> None:
    room = Room(Config(transactional_ids_max=2))
    assert [room.init(name).code for name in "abca"] == [
        _E.NONE,
        _E.NONE,
        _E.POLICY_VIOLATION,
        _E.NONE,
    ]


def test_what_is_not_committed_is_neither_described_nor_listed() -> None:
    room = Room()
    room.partition.hold = True
    room.init()
    with pytest.raises(ApiError) as error:
        room.transactions.describe_transaction(ID)
    assert error.value.code is _E.TRANSACTIONAL_ID_NOT_FOUND
    assert room.transactions.list_transactions(Filter.of()) == []
    room.partition.flush()
    assert room.transactions.describe_transaction(ID).status == "Empty"
    assert len(room.transactions.list_transactions(Filter.of())) == 1
    for name, code in (("", _E.INVALID_REQUEST), ("who", _E.TRANSACTIONAL_ID_NOT_FOUND)):
        with pytest.raises(ApiError) as error:
            room.transactions.describe_transaction(name)
        assert error.value.code is code


def test_a_description_names_every_partition_in_order() -> None:
    room = Room()
    who = room.producer(timeout_ms=7_000)
    room.add(who, P2, P0, P1)
    assert room.transactions.describe_transaction(ID) == (
        ID, "Ongoing", 7_000, room.clock.wall_ms(), *who, [P0, P1, P2],
    )  # fmt: skip


def test_states_nobody_knows_find_nothing_and_are_named() -> None:
    wanted = Filter.of(states=["Ongoing", "Nowhere"], producer_ids=[7])
    assert (wanted.statuses, wanted.unknown) == (frozenset({_S.ONGOING}), ["Nowhere"])
    assert wanted.producer_ids == frozenset({7})
    room = Room()
    room.producer()
    nothing = Filter.of(states=["Nowhere"])
    assert room.transactions.list_transactions(nothing) == []


def test_a_request_that_finds_its_decision_made_waits_for_it_to_be_committed() -> None:
    room = Room()
    who = room.producer()
    room.partition.hold = True
    first, again = room.add(who, P0), Asked()
    room.transactions.add(ID, who, [P0], 0, lambda error: again(error or _E.NONE))
    assert first.waits
    assert again.waits
    room.partition.flush()
    assert (first.code, again.code) == (_E.NONE, _E.NONE)


def test_an_epoch_that_could_not_be_written_is_given_again() -> None:
    room = Room()
    who = room.producer()
    room.partition.refusal = _E.NOT_ENOUGH_REPLICAS
    assert room.init().code is _E.COORDINATOR_NOT_AVAILABLE
    assert room.add(who, P0).code is _E.COORDINATOR_NOT_AVAILABLE
    assert room.shard.ongoing == {}
    assert room.transactions.open_since_ms() == []
    room.partition.refusal = None
    assert room.producer() == ProducerEpoch(who.producer_id, who.epoch + 1)


def refused(room: Room, who: ProducerEpoch, partition: TopicPartition) -> ErrorCode:
    """What a first batch of the producer in `partition` is refused with."""
    found: dict[TopicPartition, ApiError] = {}
    room.transactions.verify(ID, who, [partition], found.update)
    return found[partition].code if found else _E.NONE


def test_a_batch_waits_until_its_transaction_and_its_partition_are_committed() -> None:
    room = Room()
    who = room.producer()
    room.add(who, P0)
    room.end(who)
    room.partition.hold = True
    room.add(who, P0)
    assert refused(room, who, P0) is _E.CONCURRENT_TRANSACTIONS
    room.partition.flush()
    assert refused(room, who, P0) is _E.NONE
    room.add(who, P1)
    assert refused(room, who, P0) is _E.NONE
    assert refused(room, who, P1) is _E.CONCURRENT_TRANSACTIONS
    room.partition.flush()
    assert refused(room, who, P1) is _E.NONE
    assert refused(room, who, P2) is _E.INVALID_TXN_STATE


def test_a_batch_under_an_id_that_is_not_committed_itself_waits() -> None:
    room = Room()
    room.partition.hold = True
    room.init()
    guessed = ProducerEpoch(room.state().producer_id, 0)
    room.add(guessed, P0)
    assert refused(room, guessed, P0) is _E.CONCURRENT_TRANSACTIONS


def test_a_completion_on_its_way_when_the_coordinator_goes_is_not_tried_for_ever() -> None:
    room = Room()
    ending(room)
    room.partition.hold = True
    room.data(P1).flush()
    room.transactions.close()
    room.clock.advance(1)
    assert room.clock.timers == 0


def test_a_decision_of_nothing_about_nobody_is_answered() -> None:
    room, asked = Room(), Asked()
    room.shard.change("who", lambda *_: None, asked)
    assert asked.code is _E.TRANSACTIONAL_ID_NOT_FOUND


def test_what_was_decided_goes_on_when_the_cluster_is_known_before_or_after_the_log() -> None:
    before = Room()
    ending(before)
    before.data(P1).hold = False
    for joined in (True, False):
        room = before.restart(joined=joined)
        if not joined:
            assert room.state().status is _S.PREPARE_COMMIT
            room.transactions.begin()
            room.clock.advance()
        assert room.state().status is _S.COMPLETE_COMMIT
