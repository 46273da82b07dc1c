"""Undecided messages: decided once, asked about until then, given up at the limit."""

import asyncio

import pytest

from headrace.broker.partition import Partition
from headrace.held import held_log
from headrace.held.held_log import HeldLog
from headrace.held.topic_targets import HeldTopicMessage
from headrace.model.errors import ApiError, ErrorCode, HeadraceError
from tests.support.held.lives import ASKS_MAX, FIRST_MS, INTERVAL_MS, HalfRoom, load_slowly
from tests.support.held.room import TARGET, message


def test_a_message_is_in_its_topic_when_it_is_committed_and_not_before() -> None:
    room = HalfRoom()
    (offset,) = room.add("a")
    assert (room.targets.stored, len(room.half)) == ([], 1)
    assert room.decide(offset, commits=True)
    assert (room.targets.stored, len(room.half)) == (["a"], 0)


def test_a_message_is_decided_once() -> None:
    room = HalfRoom()
    first, second = room.add("a", "b")
    assert room.decide(first, commits=True)
    assert not room.decide(first, commits=True)
    assert not room.decide(first, commits=False)
    assert room.decide(second, commits=False)
    assert not room.decide(second, commits=True)
    assert not room.decide(99, commits=True)
    assert room.targets.stored == ["a"]


def test_decisions_survive_a_kill_and_open_messages_do() -> None:
    room = HalfRoom()
    first, second, third = room.add("a", "b", "c")
    room.decide(first, commits=True)
    room.decide(second, commits=False)
    again = room.again()
    assert len(again.half) == 1
    assert not again.decide(first, commits=True)
    assert not again.decide(second, commits=True)
    assert again.decide(third, commits=True)
    assert again.targets.stored == ["a", "c"]
    assert len(again.again().half) == 0


def test_a_second_decision_while_one_is_stored_is_refused() -> None:
    room = HalfRoom()
    (offset,) = room.add("a")
    room.targets.waiting = []
    results: list[bool] = []

    async def both() -> None:
        results.append(await room.half.decide(offset, lambda held: None, None))

    async def commit() -> bool:
        async def store() -> None:
            while not room.targets.waiting:
                await _turn()
            await both()
            room.targets.store_waiting()

        task = asyncio.ensure_future(store())
        decided = await room.half.decide(offset, lambda held: None, room.targets.deliver)
        await task
        return decided

    assert room.run(commit())
    assert results == [False]
    assert room.targets.stored == ["a"]


def test_a_message_whose_decision_is_being_stored_is_neither_asked_about_nor_given_up() -> None:
    room = HalfRoom()
    (offset,) = room.add("a")
    room.targets.hold(True)

    async def commit() -> bool:
        decide = room.half.decide(offset, lambda held: None, room.targets.deliver)
        task = asyncio.ensure_future(decide)
        while not room.targets.waiting:
            await _turn()
        room.pass_ms(FIRST_MS + 2 * ASKS_MAX * INTERVAL_MS)
        assert (room.asked, room.given_up.stored) == ([], [])
        room.targets.hold(False)
        return await task

    assert room.run(commit())
    assert room.targets.stored == ["a"]
    room.pass_ms(2 * INTERVAL_MS)
    assert room.asked == []


def test_messages_that_cannot_be_read_are_asked_about_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    room = HalfRoom()
    room.add("a", "b")

    def broken(*_: object) -> None:
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)

    with monkeypatch.context() as patched:
        patched.setattr(held_log, "_read", broken)
        room.pass_ms(FIRST_MS + INTERVAL_MS)
    assert room.asked == []
    room.pass_ms(INTERVAL_MS + 100)
    assert sorted(room.asked) == [("a", 1), ("b", 1)]


async def _turn() -> None:
    await asyncio.sleep(0)


def test_a_commit_that_is_not_stored_leaves_the_message_undecided() -> None:
    room = HalfRoom()
    (offset,) = room.add("a")
    room.targets.refused[TARGET] = ErrorCode.NOT_ENOUGH_REPLICAS
    with pytest.raises(ApiError):
        room.decide(offset, commits=True)
    room.targets.refused.clear()
    room.pass_ms(FIRST_MS + 100)
    assert room.asked == [("a", 1)]
    assert room.decide(offset, commits=True)
    assert room.targets.stored == ["a"]


def test_a_refused_decision_leaves_the_message_undecided() -> None:
    room = HalfRoom()
    (offset,) = room.add("a")

    def refuse(held: HeldTopicMessage) -> None:
        assert held == message("a")
        raise HeadraceError("another group's")

    with pytest.raises(HeadraceError):
        room.run(room.half.decide(offset, refuse, room.targets.deliver))
    assert room.targets.stored == []
    assert room.decide(offset, commits=True)


def test_a_rollback_that_is_not_stored_leaves_the_message_undecided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    room = HalfRoom()
    (offset,) = room.add("a")
    with monkeypatch.context() as patched:
        patched.setattr(Partition, "append_internal", _refuse)
        with pytest.raises(ApiError):
            room.decide(offset, commits=False)
    assert len(room.half) == 1
    assert room.decide(offset, commits=False)


def test_a_committed_message_is_settled_later_if_that_fails_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    room = HalfRoom()
    (offset,) = room.add("a")
    with monkeypatch.context() as patched:
        patched.setattr(Partition, "append_internal", _refuse)
        assert room.decide(offset, commits=True)
        assert not room.decide(offset, commits=True)
        room.pass_ms(2000)
    room.pass_ms(1100)
    again = room.again()
    assert len(again.half) == 0
    assert (room.targets.stored, room.asked) == (["a"], [])


def _refuse(*_: object, **__: object) -> None:
    raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)


# Questions


def test_the_producer_is_asked_at_its_time_then_again_and_again() -> None:
    room = HalfRoom()
    room.add("a")
    room.pass_ms(FIRST_MS - 10)
    assert room.asked == []
    room.pass_ms(20)
    assert room.asked == [("a", 1)]
    room.pass_ms(INTERVAL_MS)
    assert room.asked == [("a", 1), ("a", 2)]
    assert room.half.asked(0) == 2


def test_a_decided_message_is_not_asked_about() -> None:
    room = HalfRoom()
    first, second = room.add("a", "b")
    room.decide(first, commits=False)
    room.pass_ms(FIRST_MS + 100)
    assert room.asked == [("b", 1)]
    room.decide(second, commits=True)
    room.pass_ms(5 * INTERVAL_MS)
    assert room.asked == [("b", 1)]


def test_no_producer_is_asked_after_close() -> None:
    room = HalfRoom()
    room.add("a")
    room.half.close()
    room.pass_ms(FIRST_MS + INTERVAL_MS)
    assert room.asked == []


def test_a_producer_that_is_away_is_waited_for_and_nothing_is_counted() -> None:
    room = HalfRoom()
    room.producer_lives = False
    room.add("a")
    room.pass_ms(10 * INTERVAL_MS, 100)
    assert (room.given_up.stored, len(room.half)) == ([], 1)
    room.producer_lives = True
    room.pass_ms(INTERVAL_MS + 10)
    assert room.asked == [("a", 1)]


def test_a_message_is_given_up_after_the_last_question() -> None:
    room = HalfRoom()
    (offset, other) = room.add("a", "b")
    room.pass_ms(FIRST_MS + INTERVAL_MS)
    assert room.decide(other, commits=True)
    room.pass_ms(4 * INTERVAL_MS)
    assert room.asked == [("a", 1), ("b", 1), ("a", 2), ("b", 2), ("a", 3)]
    assert (room.given_up.stored, room.half.given_up) == (["a"], 1)
    assert not room.decide(offset, commits=True)
    again = room.again()
    assert len(again.half) == 0
    assert (again.given_up.stored, again.targets.stored) == (["a"], ["b"])


def test_a_message_that_cannot_be_given_up_now_is_given_up_later() -> None:
    room = HalfRoom()
    room.given_up.refused[TARGET] = ErrorCode.NOT_ENOUGH_REPLICAS
    (offset,) = room.add("a")
    room.pass_ms(FIRST_MS + 5 * INTERVAL_MS)
    assert (len(room.half), room.half.given_up) == (1, 0)
    room.given_up.refused.clear()
    room.pass_ms(INTERVAL_MS + 10)
    assert (room.given_up.stored, room.half.given_up) == (["a"], 1)
    assert not room.decide(offset, commits=True)


def test_a_message_that_could_not_be_given_up_is_given_up_at_the_next_time() -> None:
    room = HalfRoom()
    room.given_up.waiting = []
    room.add("a")
    room.pass_ms(FIRST_MS + ASKS_MAX * INTERVAL_MS + 200)
    ((_, done),) = room.given_up.waiting
    assert not room.decide(0, commits=True), "it is being given up"
    room.given_up.waiting = None
    done(ApiError(ErrorCode.NOT_ENOUGH_REPLICAS))
    assert (len(room.half), room.half.given_up) == (1, 0)
    room.pass_ms(INTERVAL_MS + 10)
    assert (room.given_up.stored, room.half.given_up) == (["a"], 1)


def test_questions_are_counted_through_kills() -> None:
    room = HalfRoom()
    room.add("a")
    room.pass_ms(FIRST_MS + 10)
    again = room.again()
    again.pass_ms(INTERVAL_MS + 10)
    assert again.asked[0] == ("a", 2), "its time has passed: it is asked at the start"
    last = again.again()
    last.pass_ms(3 * INTERVAL_MS)
    assert last.given_up.stored == ["a"]
    assert room.asked + again.asked + last.asked == [("a", 1), ("a", 2), ("a", 3)]


def test_a_kill_between_commit_and_settling_asks_again() -> None:
    room = HalfRoom()
    (offset,) = room.add("a")
    room.targets.waiting = []

    async def commit() -> None:
        task = asyncio.ensure_future(
            room.half.decide(offset, lambda held: None, room.targets.deliver)
        )
        while not room.targets.waiting:
            await _turn()
        room.targets.store_waiting(answered=False)
        task.cancel()

    room.run(commit())
    assert room.targets.stored == ["a"]
    again = room.again()
    again.targets.waiting = None
    again.pass_ms(FIRST_MS + 10)
    assert again.asked == [("a", 1)]
    assert again.decide(offset, commits=True)
    assert again.targets.stored == ["a", "a"]
    assert len(again.again().half) == 0


def test_the_clock_jumps_back_and_no_question_is_early() -> None:
    room = HalfRoom()
    room.add("a")
    room.jump_ms(-10_000)
    room.pass_ms(10_000, 100)
    assert room.asked == []
    room.pass_ms(FIRST_MS + 100, 100)
    assert room.asked == [("a", 1)]


DAYS_3_MS = 72 * 3_600_000


@pytest.mark.parametrize("lives", [True, False])
def test_a_clock_that_jumps_ahead_gives_up_no_message(lives: bool) -> None:
    room = HalfRoom(age_ms_max=DAYS_3_MS)
    room.producer_lives = lives
    (offset,) = room.add("a")
    room.jump_ms(DAYS_3_MS + 1_000_000)
    room.pass_ms(FIRST_MS + (ASKS_MAX - 1) * INTERVAL_MS)
    assert room.given_up.stored == []
    if not lives:
        room.pass_ms(20 * INTERVAL_MS, 100)
        assert room.given_up.stored == [], "without a producer it waits for 72 hours"
        room.producer_lives = True
        room.pass_ms(INTERVAL_MS + 1100)
        assert room.asked[:2] == [("a", 1), ("a", 2)]
    assert room.decide(offset, commits=True)
    assert room.targets.stored == ["a"]


@pytest.mark.parametrize("lives", [True, False])
def test_after_a_jump_before_the_start_a_message_is_asked_about_before_it_is_given_up(
    lives: bool,
) -> None:
    room = HalfRoom(age_ms_max=DAYS_3_MS)
    room.producer_lives = lives
    room.add("a")
    room.pass_ms(FIRST_MS + 10)
    room.jump_ms(DAYS_3_MS)
    again = room.again()
    again.producer_lives = lives
    left = ASKS_MAX - len(room.asked)
    again.pass_ms((left - 1) * INTERVAL_MS + 100)
    assert again.given_up.stored == []
    assert len(again.asked) == (left if lives else 0)
    again.pass_ms(3 * INTERVAL_MS)
    assert again.given_up.stored == ["a"]


def test_a_message_without_a_producer_is_given_up_when_its_age_has_passed() -> None:
    room = HalfRoom(age_ms_max=20 * INTERVAL_MS)
    room.producer_lives = False
    room.add("a")
    room.pass_ms(5 * INTERVAL_MS, 100)
    room.jump_ms(-10 * INTERVAL_MS)
    room.pass_ms(25 * INTERVAL_MS, 100)
    assert room.given_up.stored == [], "the wall clock was set back"
    room.pass_ms((ASKS_MAX + 3) * INTERVAL_MS, 100)
    assert (room.given_up.stored, room.asked) == (["a"], [])


def test_a_message_of_a_producer_that_comes_and_goes_is_asked_about_as_often_as_any() -> None:
    """Looks without a producer count only above the age."""
    room = HalfRoom(age_ms_max=DAYS_3_MS)
    room.add("a")
    for lives in (True, False, False, False, True, False):
        room.producer_lives = lives
        room.pass_ms(INTERVAL_MS, 100)
    assert len(room.asked) == 2
    assert room.given_up.stored == []


def test_no_producer_is_asked_while_the_log_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    room = HalfRoom()
    (offset,) = room.add("old")
    room.decide(offset, commits=False)
    room.pass_ms(FIRST_MS + 10)
    monkeypatch.setattr(HeldLog, "load", load_slowly)
    again = room.again()
    again.pass_ms(10)
    assert again.asked == [("new", 1)], "no producer is asked about the decided message"
