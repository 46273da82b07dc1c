"""Delayed messages: never early, in order of time, at most twice for a kill, never not at all."""

import pytest

from headrace.broker.partition import Partition
from headrace.held import delays as delays_module
from headrace.held import held_log
from headrace.held.delays import DELIVERED_AT_ONCE
from headrace.held.held_log import HeldLog
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.ports.callbacks import ignore_result
from tests.support.held.lives import DelayRoom, load_slowly, recall
from tests.support.held.room import message

OTHER = TopicPartition("other", 0)


def test_a_message_is_delivered_at_its_time_and_not_before() -> None:
    room = DelayRoom()
    room.add("a", after_ms=3000)
    assert room.answered == [0]
    room.pass_ms(2990)
    assert room.stored == []
    assert len(room.delays) == 1
    room.pass_ms(20)
    assert room.stored == ["a"]
    assert len(room.delays) == 0


def test_a_message_that_is_due_before_those_that_wait_is_not_late() -> None:
    room = DelayRoom()
    room.add("later", after_ms=900)
    room.pass_ms(50)
    room.add("sooner", after_ms=100)
    room.pass_ms(110)
    assert room.stored == ["sooner"]


def test_messages_are_delivered_in_the_order_of_time_then_of_arrival() -> None:
    room = DelayRoom()
    room.add("c1", "c2", after_ms=70_000)
    room.add("b", after_ms=69_999)
    room.add("c3", after_ms=70_000)
    room.add("a", after_ms=10)
    room.pass_ms(71_000, 1000)
    assert room.stored == ["a", "b", "c1", "c2", "c3"]


def test_many_messages_of_one_moment_are_delivered_in_several_rounds() -> None:
    room = DelayRoom()
    bodies = [str(number) for number in range(2 * DELIVERED_AT_ONCE + 10)]
    room.add(*bodies, after_ms=100)
    room.pass_ms(200)
    assert room.stored == bodies


def test_a_message_that_is_due_already_is_delivered_at_once() -> None:
    room = DelayRoom()
    room.add("a", after_ms=-5)
    room.pass_ms(10)
    assert room.stored == ["a"]


def test_a_kill_loses_no_message_and_none_is_delivered_twice_that_was_settled() -> None:
    room = DelayRoom()
    room.add("a", after_ms=100)
    room.add("b", after_ms=5000)
    room.pass_ms(200)
    again = room.again()
    again.pass_ms(4000)
    assert again.stored == ["a"]
    again.pass_ms(1000)
    assert again.stored == ["a", "b"]
    assert again.again().again().stored == ["a", "b"]


def test_messages_due_while_the_broker_was_down_are_delivered_at_start() -> None:
    room = DelayRoom()
    room.add("b", after_ms=2000)
    room.add("a", after_ms=1000)
    room.delays.close()
    room.pass_ms(5000, 1000)
    assert room.stored == []
    again = DelayRoom(room, room.targets)
    again.pass_ms(10)
    assert again.stored == ["a", "b"]


def test_a_kill_between_delivery_and_settling_delivers_twice_at_most() -> None:
    room = DelayRoom()
    room.targets.waiting = []
    room.add("a", after_ms=100)
    room.pass_ms(200)
    room.targets.store_waiting(answered=False)
    again = room.again()
    again.targets.waiting = None
    again.pass_ms(1000)
    assert again.stored == ["a", "a"]
    assert again.again().stored == ["a", "a"]


def test_a_kill_before_delivery_delivers_once() -> None:
    room = DelayRoom()
    room.targets.waiting = []
    room.add("a", after_ms=100)
    room.pass_ms(200)
    assert len(room.targets.waiting) == 1
    again = room.again()
    again.targets.waiting = None
    again.pass_ms(1000)
    assert again.stored == ["a"]


def test_the_clock_jumps_back_and_nothing_is_early() -> None:
    room = DelayRoom()
    room.add("a", after_ms=5000)
    room.jump_ms(-60_000)
    room.add("b", after_ms=2000)
    room.pass_ms(2010)
    assert room.stored == ["b"]
    room.pass_ms(62_900, 100)
    assert room.stored == ["b"]
    room.pass_ms(200)
    assert room.stored == ["b", "a"], "late by the jump, and not more"


def test_the_clock_jumps_forward_and_messages_are_due_at_once() -> None:
    room = DelayRoom()
    room.add("a", after_ms=3_600_000)
    room.pass_ms(2000)
    room.jump_ms(3_600_000)
    room.pass_ms(1010)
    assert room.stored == ["a"]


def test_a_failing_target_is_tried_again_and_holds_up_no_other() -> None:
    room = DelayRoom()
    room.targets.refused[OTHER] = ErrorCode.NOT_ENOUGH_REPLICAS
    room.add("x", after_ms=100, target=OTHER)
    room.add("a", after_ms=101)
    room.pass_ms(5000)
    assert room.stored == ["a"]
    assert len(room.delays) == 1
    del room.targets.refused[OTHER]
    room.pass_ms(1100)
    assert room.stored == ["a", "x"]
    assert room.again().stored == ["a", "x"]


def test_a_failure_is_logged_once_and_again_after_a_recovery(
    caplog: pytest.LogCaptureFixture,
) -> None:
    room = DelayRoom()

    def late() -> int:
        return sum("delayed messages are late" in text for text in caplog.messages)

    for failures in (1, 2):
        room.targets.refused[OTHER] = ErrorCode.NOT_ENOUGH_REPLICAS
        room.add("x", after_ms=100, target=OTHER)
        room.pass_ms(5000)
        assert late() == failures
        del room.targets.refused[OTHER]
        room.pass_ms(1100)
    assert room.stored == ["x", "x"]


def test_failing_messages_do_not_fill_every_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delays_module, "DELIVERED_AT_ONCE", 4)
    room = DelayRoom()
    room.targets.refused[OTHER] = ErrorCode.NOT_ENOUGH_REPLICAS
    room.add(*"123456789", after_ms=100, target=OTHER)
    room.add("a", after_ms=200)
    room.pass_ms(1000)
    assert room.stored == ["a"]


def test_messages_of_a_deleted_topic_are_discarded_and_counted() -> None:
    room = DelayRoom()
    room.targets.refused[OTHER] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    room.add("x", after_ms=100, target=OTHER)
    room.pass_ms(200)
    assert (len(room.delays), room.delays.discarded) == (0, 1)
    room.targets.refused.clear()
    assert room.again().stored == []


def test_a_recalled_message_is_not_delivered_also_after_a_kill() -> None:
    room = DelayRoom()
    due_ms = room.now_ms + 5000
    room.add("a", "b", "c", after_ms=5000)
    assert not recall(room, "d", due_ms)
    assert not recall(room, "b", due_ms + 1)
    assert recall(room, "b", due_ms)
    assert not recall(room, "b", due_ms)
    again = room.again()
    again.pass_ms(6000)
    assert again.stored == ["a", "c"]
    assert not recall(again, "a", due_ms), "it is delivered"


def test_a_message_that_is_being_delivered_is_not_recalled() -> None:
    room = DelayRoom()
    due_ms = room.now_ms + 100
    room.targets.waiting = []
    room.add("a", after_ms=100)
    room.pass_ms(200)
    assert not recall(room, "a", due_ms)
    room.targets.store_waiting()
    room.pass_ms(10)
    assert room.stored == ["a"]


def test_a_recall_that_is_not_stored_raises_and_the_message_is_delivered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    room = DelayRoom()
    due_ms = room.now_ms + 100
    room.add("a", after_ms=100)

    def refuse(*_: object, **__: object) -> None:
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)

    with monkeypatch.context() as patched:
        patched.setattr(Partition, "append_internal", refuse)
        with pytest.raises(ApiError):
            recall(room, "a", due_ms)
    room.pass_ms(1200)
    assert room.stored == ["a"]


def test_a_message_is_not_delivered_again_while_settling_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    room = DelayRoom()
    room.add("a", after_ms=100)
    room.add("b", after_ms=300)

    def refuse(*_: object, **__: object) -> None:
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)

    with monkeypatch.context() as patched:
        patched.setattr(Partition, "append_internal", refuse)
        room.pass_ms(3000)
        assert room.stored == ["a"], "a kill would deliver more of them twice"
    room.pass_ms(2100)
    assert room.stored == ["a", "b"]
    assert room.again().stored == ["a", "b"]


def test_messages_that_cannot_be_read_are_delivered_later_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    room = DelayRoom()
    room.add("b", after_ms=200)
    room.add("a", after_ms=100)

    def broken(*_: object) -> None:
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)

    with monkeypatch.context() as patched:
        patched.setattr(held_log, "_read", broken)
        room.pass_ms(3000)
        assert (room.stored, len(room.delays)) == ([], 2)
    room.pass_ms(2100)
    assert sorted(room.stored) == ["a", "b"]
    assert len(room.delays) == 0


def test_a_message_that_is_not_stored_is_not_delivered() -> None:
    room = DelayRoom()
    room.partition.close(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    room.add("a", after_ms=100)
    (answer,) = room.answered
    assert isinstance(answer, ApiError)
    room.pass_ms(500)
    assert (room.stored, len(room.delays)) == ([], 0)


def test_nothing_is_delivered_after_close() -> None:
    room = DelayRoom()
    room.add("a", after_ms=100)
    room.delays.close()
    room.pass_ms(500)
    assert room.stored == []


def test_large_messages_are_delivered_in_several_rounds_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(held_log, "READ_BYTES_MAX", 10)
    monkeypatch.setattr(held_log, "READ_BYTES", 1)
    room = DelayRoom()
    bodies = [letter * 8 for letter in "fedcba"]
    for place, body in enumerate(bodies):
        room.add(body, after_ms=100 - place)
    room.pass_ms(300)
    assert room.stored == bodies[::-1]


def test_message_that_came_into_the_log_without_the_delays_is_delivered() -> None:
    room = DelayRoom()
    room.log.append(message("a"), room.now_ms + 100, ignore_result)
    room.pass_ms(90)
    assert (room.stored, len(room.delays)) == ([], 1)
    room.pass_ms(20)
    assert room.stored == ["a"]


def test_nothing_is_delivered_while_the_log_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    room = DelayRoom()
    room.add("old", after_ms=0)
    room.pass_ms(10)
    assert room.stored == ["old"]
    monkeypatch.setattr(HeldLog, "load", load_slowly)
    again = room.again()
    again.pass_ms(10)
    assert again.stored == ["old", "new"], "the settled one is not delivered again"
