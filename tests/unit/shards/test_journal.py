"""A shard's journal: what goes into which batch, who hears of it when, and what closing ends."""

import pytest

from headrace.model.errors import ErrorCode
from headrace.record.batch import TRANSACTIONAL, BatchHeader, codec_of, iterate, records
from headrace.record.compression import Codec
from headrace.shards.journal import Journal, answer_for
from tests.support.coordination.groups_kit import HandClock, MemoryPartition

_E = ErrorCode
PAIR = (b"key", b"value")
PAIR_BYTES = 3 + 5 + 16


class Room:
    """One journal over a partition in memory; `heard` is what its callers were told."""

    def __init__(self, bytes_max: int = 1000, codec: Codec = Codec.NONE) -> None:
        self.clock = HandClock()
        self.partition = MemoryPartition()
        self.heard: list[tuple[str, ErrorCode | None]] = []
        self.late: list[str] = []
        self.journal = Journal(
            self.partition, self.clock, bytes_max=bytes_max, timeout_seconds=30, codec=codec
        )

    def soon(self, name: str, *pairs: tuple[bytes, bytes | None]) -> None:
        self.journal.append_soon(
            pairs or (PAIR,),
            lambda error: self.heard.append((name, error)),
            lambda: self.late.append(name),
        )

    def now(self, name: str, *pairs: tuple[bytes, bytes | None]) -> None:
        self.journal.append_now(pairs or (PAIR,), lambda error: self.heard.append((name, error)))

    def settled(self, name: str) -> None:
        self.journal.when_settled(lambda: self.heard.append((name, None)))

    def sizes(self) -> list[int]:
        """How many records each batch has."""
        return [len(list(records(batch))) for batch in self.partition.log.batches]

    def header(self, index: int = -1) -> BatchHeader:
        ((_, header),) = iterate(self.partition.log.batches[index])
        return header


def test_what_one_turn_asks_for_goes_out_in_one_batch_when_it_ends() -> None:
    room = Room()
    room.soon("a", (b"1", b"x"), (b"2", None))
    room.soon("b", (b"3", b"y"))
    assert (room.sizes(), room.heard, room.clock.timers) == ([], [], 1)
    room.clock.advance()
    assert room.sizes() == [3]
    assert room.partition.pairs() == [(b"1", b"x"), (b"2", None), (b"3", b"y")]
    assert room.heard == [("a", None), ("b", None)]
    room.soon("c")
    room.clock.advance()
    assert room.sizes() == [3, 1]


@pytest.mark.parametrize(("bytes_max", "sizes"), [(PAIR_BYTES * 2, [2, 1]), (47, [1, 1, 1])])
def test_a_batch_holds_as_much_as_the_limit_and_no_more(bytes_max: int, sizes: list[int]) -> None:
    room = Room(bytes_max)
    for name in "abc":
        room.soon(name)
    room.clock.advance()
    assert room.sizes() == sizes
    assert [name for name, _ in room.heard] == ["a", "b", "c"]


def test_two_that_are_too_large_together_go_one_by_one() -> None:
    room = Room(bytes_max=47)
    room.soon("a")
    room.soon("b")
    room.clock.advance()
    assert room.sizes() == [1, 1]


def test_a_tombstone_counts_by_its_key_and_what_is_larger_than_the_limit_goes_alone() -> None:
    room = Room(bytes_max=2 * 19)
    room.soon("a", (b"key", None))
    room.soon("b", (b"key", None))
    room.soon("large", (b"key", b"v" * 100))
    room.soon("d", (b"key", None))
    room.clock.advance()
    assert room.sizes() == [2, 1, 1]


def test_what_is_appended_now_comes_behind_what_waits_and_in_a_batch_of_its_own() -> None:
    room = Room()
    room.soon("a", (b"a", b"1"))
    room.now("b", (b"b", b"2"))
    assert room.partition.pairs() == [(b"a", b"1"), (b"b", b"2")]
    assert room.sizes() == [1, 1]
    assert room.heard == [("a", None), ("b", None)]
    room.clock.advance()
    assert room.sizes() == [1, 1]


def test_a_transactions_records_are_the_producers_and_come_behind_what_waits() -> None:
    room = Room()
    room.soon("a", (b"a", b"1"))
    room.journal.append_transactional(
        [(b"b", b"2")], 7, 3, lambda error: room.heard.append(("b", error))
    )
    assert room.partition.pairs() == [(b"a", b"1"), (b"b", b"2")]
    header = room.header()
    assert (header.producer_id, header.producer_epoch) == (7, 3)
    assert header.attributes & TRANSACTIONAL
    plain = room.header(0)
    assert (plain.producer_id, plain.producer_epoch) == (-1, -1)
    assert not plain.attributes & TRANSACTIONAL


def test_batches_have_the_time_and_the_codec() -> None:
    room = Room(codec=Codec.GZIP)
    room.clock.advance(5)
    room.now("a")
    assert codec_of(room.header()) is Codec.GZIP
    assert room.header().max_timestamp == room.clock.wall_ms()


def test_nobody_hears_before_its_batch_is_committed_and_all_in_the_order_of_asking() -> None:
    room = Room()
    room.partition.hold = True
    room.now("a")
    room.soon("b")
    room.clock.advance()
    assert room.heard == []
    assert not room.journal.idle
    room.partition.flush()
    assert room.heard == [("a", None), ("b", None)]
    assert room.journal.idle


def test_the_journal_is_idle_while_nothing_waits_and_nothing_is_in_flight() -> None:
    room = Room()
    idle = [room.journal.idle]
    room.soon("a")
    idle.append(room.journal.idle)
    room.clock.advance()
    idle.append(room.journal.idle)
    assert idle == [True, False, True]


def test_a_refused_append_is_told_before_it_returns_and_leaves_nothing_in_flight() -> None:
    room = Room()
    room.partition.refusal = _E.NOT_ENOUGH_REPLICAS
    room.now("a")
    assert room.heard == [("a", _E.COORDINATOR_NOT_AVAILABLE)]
    assert room.journal.idle
    room.soon("b")
    room.soon("c")
    room.clock.advance()
    assert room.heard[1:] == [(name, _E.COORDINATOR_NOT_AVAILABLE) for name in "bc"]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (_E.UNKNOWN_TOPIC_OR_PARTITION, _E.COORDINATOR_NOT_AVAILABLE),
        (_E.NOT_ENOUGH_REPLICAS, _E.COORDINATOR_NOT_AVAILABLE),
        (_E.NOT_ENOUGH_REPLICAS_AFTER_APPEND, _E.COORDINATOR_NOT_AVAILABLE),
        (_E.REQUEST_TIMED_OUT, _E.COORDINATOR_NOT_AVAILABLE),
        (_E.NOT_LEADER_OR_FOLLOWER, _E.NOT_COORDINATOR),
        (_E.KAFKA_STORAGE_ERROR, _E.NOT_COORDINATOR),
        (_E.MESSAGE_TOO_LARGE, _E.UNKNOWN_SERVER_ERROR),
        (_E.RECORD_LIST_TOO_LARGE, _E.UNKNOWN_SERVER_ERROR),
        (_E.INVALID_FETCH_SIZE, _E.UNKNOWN_SERVER_ERROR),
        (_E.INVALID_PRODUCER_EPOCH, _E.INVALID_PRODUCER_EPOCH),
    ],
)
def test_a_flush_that_fails_is_told_as_kafka_does(error: ErrorCode, told: ErrorCode) -> None:
    room = Room()
    room.partition.hold = True
    room.now("a")
    room.partition.fail(error)
    assert room.heard == [("a", told)]
    assert answer_for(error) is told


def test_settled_is_what_was_handed_in_before_and_nothing_after() -> None:
    room = Room()
    room.settled("idle")
    assert room.heard == [("idle", None)]
    room.partition.hold = True
    room.now("a")
    room.settled("behind a")
    room.soon("b")
    room.settled("behind b")
    room.partition.flush()
    assert room.heard[1:] == [("a", None), ("behind a", None)]
    room.clock.advance()
    room.partition.flush()
    assert room.heard[3:] == [("b", None), ("behind b", None)]


def test_settled_comes_with_a_refusal_too() -> None:
    room = Room()
    room.soon("a")
    room.settled("behind a")
    room.partition.refusal = _E.NOT_ENOUGH_REPLICAS
    room.clock.advance()
    assert room.heard == [("a", _E.COORDINATOR_NOT_AVAILABLE), ("behind a", None)]


def test_nothing_to_write_is_true_as_soon_as_all_before_it_is() -> None:
    room = Room()
    room.journal.append_now((), lambda error: room.heard.append(("none", error)))
    assert room.heard == [("none", None)]
    room.partition.hold = True
    room.now("a")
    room.now("b")
    room.journal.append_now((), lambda error: room.heard.append(("none", error)))
    room.settled("settled")
    assert len(room.heard) == 1
    room.partition.flush()
    assert [name for name, _ in room.heard[1:]] == ["a", "b", "none", "settled"]
    assert room.sizes() == [1, 1]


def test_who_waits_longer_than_the_timeout_is_told_so_again_and_again() -> None:
    room = Room()
    room.partition.hold = True
    room.soon("a")
    room.clock.advance()
    room.clock.advance(29.9)
    assert room.late == []
    room.clock.advance(0.2)
    assert (room.late, room.heard) == (["a"], [])
    room.clock.advance(30)
    assert room.late == ["a", "a"]
    room.partition.flush()
    assert room.heard == [("a", None)]
    room.clock.advance(60)
    assert room.late == ["a", "a"]
    assert room.clock.timers == 0


def test_only_those_whose_time_is_up_are_late_and_each_is_when_it_is_reached() -> None:
    room = Room()
    room.partition.hold = True
    room.soon("a")
    room.clock.advance()
    room.clock.advance(1)
    room.soon("b")
    room.clock.advance()
    room.clock.advance(29)  # just as long as may be for a
    assert room.late == ["a"]
    room.now("never late")
    room.clock.advance(30)
    assert room.late == ["a", "a", "b"]


def test_a_later_append_is_watched_anew() -> None:
    room = Room()
    room.soon("a")
    room.clock.advance()
    room.clock.advance(100)
    assert room.clock.timers == 0
    room.partition.hold = True
    room.soon("b")
    room.clock.advance()
    room.clock.advance(30)
    assert room.late == ["b"]


def test_closing_answers_everybody_in_order_and_ends_every_timer() -> None:
    room = Room()
    room.partition.hold = True
    room.now("in flight")
    room.soon("waits")
    room.settled("settled")
    assert room.clock.timers == 2
    room.journal.close(_E.NOT_COORDINATOR)
    gone = _E.NOT_COORDINATOR
    assert room.heard == [("in flight", gone), ("waits", gone), ("settled", None)]
    assert room.clock.timers == 0
    assert room.journal.idle
    room.clock.advance(100)
    room.partition.flush()
    assert (len(room.heard), room.late, room.sizes()) == (3, [], [1])


def test_a_closed_journal_writes_nothing_and_answers_with_why_it_was_closed_first() -> None:
    room = Room()
    room.journal.close(_E.KAFKA_STORAGE_ERROR)
    room.journal.close(_E.NOT_COORDINATOR)
    room.soon("a")
    room.now("b")
    room.journal.append_transactional([PAIR], 7, 3, lambda error: room.heard.append(("c", error)))
    room.settled("d")
    assert room.heard == [*((name, _E.KAFKA_STORAGE_ERROR) for name in "abc"), ("d", None)]
    assert (room.sizes(), room.clock.timers) == ([], 0)
