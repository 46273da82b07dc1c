"""Offsets that come with pulls: read at once, written soon, replaced by those that are answered."""

from headrace.model.errors import ErrorCode
from headrace.subscriptions.group_offsets import SOON_SECONDS, WRITTEN_AT_ONCE
from tests.support.rocketmq.group_offsets import Play


def test_offsets_of_pulls_are_read_at_once_and_written_together_soon() -> None:
    play = Play()
    for offset in range(1, 8):
        play.offsets.store_soon("g", "t", 0, offset)
        assert play.read() == offset
    play.offsets.store_soon("g", "t", 1, 5)
    assert play.coordinator.asked == []
    assert play.clock.fire() == SOON_SECONDS
    assert play.coordinator.asked == [("t", 0, 7), ("t", 1, 5)]
    play.coordinator.land()
    assert (play.read(), play.clock.timers) == (7, [])


def test_offset_of_a_pull_is_replaced_by_one_that_is_answered() -> None:
    play = Play()
    play.offsets.store_soon("g", "t", 0, 9)
    play.store(4)
    assert play.read() == 4
    play.clock.fire()
    assert play.coordinator.asked == [("t", 0, 4)]


def test_offset_of_a_pull_that_is_stored_already_is_not_written() -> None:
    play = Play()
    play.store(4)
    play.coordinator.land()
    play.offsets.store_soon("g", "t", 0, 4)
    assert play.clock.timers == []


def test_offset_of_a_pull_does_not_undo_a_reset() -> None:
    play = Play()
    play.offsets.store_soon("g", "t", 0, 9)
    play.offsets.reset("g", "t", 0, 2, lambda code: None)
    play.offsets.store_soon("g", "t", 0, 10)
    play.clock.fire()
    assert play.coordinator.asked == [("t", 0, 2)]
    assert play.offsets.take_reset("g", "t", 0) == 2


def test_offset_of_a_pull_is_ignored_while_the_coordinator_loads() -> None:
    play = Play()
    play.coordinator.fails = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    play.offsets.store_soon("g", "t", 0, 9)
    play.coordinator.fails = None
    assert (play.read(), play.clock.timers) == (None, [])


def test_many_offsets_of_pulls_are_written_in_several_turns() -> None:
    play = Play()
    for partition in range(WRITTEN_AT_ONCE + 1):
        play.offsets.store_soon("g", "t", partition, 1)
    play.clock.fire()
    assert len(play.coordinator.asked) == WRITTEN_AT_ONCE
    assert play.clock.fire() == 0
    assert len(play.coordinator.asked) == WRITTEN_AT_ONCE + 1


def test_offsets_of_pulls_are_written_when_the_broker_stops() -> None:
    play = Play()
    play.offsets.store_soon("g", "t", 0, 9)
    play.offsets.close()
    assert (play.coordinator.asked, play.clock.timers) == ([("t", 0, 9)], [])


def test_offset_of_a_pull_is_not_stored_for_a_new_topic_of_the_same_name() -> None:
    play = Play()
    play.offsets.store_soon("g", "t", 0, 9)
    play.offsets.store_soon("g", "stays", 0, 9)
    play.offsets.forget_deleted({"stays"})
    play.clock.fire()
    assert play.coordinator.asked == [("stays", 0, 9)]
