"""Offsets of groups: read at once, one write in flight for each queue, none lost or reordered."""

from typing import cast

import pytest

from headrace.coordination.groups.committed_offsets import Committed
from headrace.model.errors import ApiError, ErrorCode
from headrace.ports.clock import Clock
from headrace.subscriptions.group_offsets import UNSET, GroupOffsets
from tests.support.rocketmq.group_offsets import Play


def test_an_offset_is_read_at_once_and_answered_when_stored() -> None:
    play = Play()
    assert play.read() is None
    play.store(5)
    assert (play.read(), play.answers) == (5, [])
    play.coordinator.land()
    assert (play.read(), play.answers) == (5, [(5, ErrorCode.NONE)])


def test_an_offset_never_expires() -> None:
    play = Play()
    play.store(5)
    play.coordinator.land()
    retention = play.coordinator.stored["g", "t", 0].expires_ms
    assert (1 << 63) > retention + 1_800_000_000_000 > 100 * 365 * 86_400_000 * 1000


def test_an_offset_may_go_backwards() -> None:
    play = Play()
    for offset in (5, 3):
        play.store(offset)
        play.coordinator.land()
    assert play.read() == 3


def test_offsets_behind_a_write_are_one_write_of_the_newest() -> None:
    play = Play()
    for offset in (1, 2, 9, 4):
        play.store(offset)
    assert play.coordinator.asked == [("t", 0, 1)]
    assert play.read() == 4
    play.coordinator.land()
    assert play.answers == [(1, ErrorCode.NONE)], "the others are not on disk"
    assert play.coordinator.asked == [("t", 0, 1), ("t", 0, 4)]
    assert play.read() == 4
    play.coordinator.land()
    assert play.answers == [(n, ErrorCode.NONE) for n in (1, 2, 9, 4)]
    assert not play.coordinator.flying


def test_queues_are_written_beside_each_other() -> None:
    play = Play()
    play.store(1)
    play.store(2, partition=1)
    assert play.coordinator.asked == [("t", 0, 1), ("t", 1, 2)]


def test_minus_one_deletes_the_offset() -> None:
    play = Play()
    play.store(5)
    play.coordinator.land()
    play.store(UNSET)
    assert play.read() is None
    play.coordinator.land()
    assert play.read() is None
    assert play.answers[-1] == (UNSET, ErrorCode.NONE)


def test_minus_one_without_an_offset_is_no_error() -> None:
    play = Play()
    play.store(UNSET)
    play.coordinator.land(ErrorCode.GROUP_ID_NOT_FOUND)
    assert play.answers == [(UNSET, ErrorCode.NONE)]
    assert play.read() is None


def test_a_failed_write_is_answered_and_the_stored_offset_read() -> None:
    play = Play()
    play.store(5)
    play.coordinator.land()
    play.store(6)
    play.coordinator.land(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert play.answers[-1] == (6, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert play.read() == 5


def test_an_offset_behind_a_failed_write_is_written_all_the_same() -> None:
    play = Play()
    play.store(5)
    play.store(6)
    play.coordinator.land(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    play.coordinator.land()
    assert play.answers == [(5, ErrorCode.COORDINATOR_NOT_AVAILABLE), (6, ErrorCode.NONE)]
    assert play.read() == 6


def test_a_coordinator_that_is_loading_is_reported_and_asked_again_later() -> None:
    play = Play()
    play.coordinator.fails = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    with pytest.raises(ApiError, match="LOAD"):
        play.read()
    play.store(5)
    assert play.answers == [(5, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)]
    play.coordinator.fails = None
    assert play.read() is None
    play.store(6)
    play.coordinator.land()
    assert play.read() == 6


def test_a_commit_that_is_refused_is_answered_and_a_later_one_written() -> None:
    play = Play()
    play.coordinator.refuses = ErrorCode.GROUP_MAX_SIZE_REACHED
    play.store(5)
    assert play.answers == [(5, ErrorCode.GROUP_MAX_SIZE_REACHED)]
    assert play.read() is None
    play.coordinator.refuses = None
    play.store(6)
    play.coordinator.land()
    assert play.answers[-1] == (6, ErrorCode.NONE)
    reset(play, 2)
    play.coordinator.land()
    play.coordinator.refuses = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert [play.offsets.take_reset("g", "t", 0) for _ in range(2)] == [2, 2], "still pending"
    play.coordinator.refuses = None
    assert play.offsets.take_reset("g", "t", 0) == 2
    play.coordinator.land()
    assert play.offsets.take_reset("g", "t", 0) is None


def test_a_store_out_of_a_callback_is_written_too() -> None:
    play = Play()
    play.offsets.store("g", "t", 0, 1, lambda code: play.store(2))
    play.store(3)
    play.coordinator.land()
    assert play.coordinator.asked == [("t", 0, 1), ("t", 0, 3)]
    play.coordinator.land()
    play.coordinator.land()
    assert play.coordinator.asked[-1] == ("t", 0, 2)
    assert play.read() == 2
    assert not play.coordinator.flying


def test_the_time_of_the_first_offset_of_a_topic_stays() -> None:
    play = Play()
    assert play.offsets.first_stored_ms("g", "t", 4) is None
    play.store(1)
    play.coordinator.land()
    play.clock.now_ms = 2000
    play.store(2)
    play.coordinator.land()
    play.store(7, partition=1)
    play.coordinator.land()
    assert play.offsets.first_stored_ms("g", "t", 4) == 1000
    assert play.coordinator.stored["g", "t", 1].metadata == "since=2000"
    assert play.offsets.first_stored_ms("g", "t", 0) is None
    assert play.offsets.first_stored_ms("g", "other", 4) is None


@pytest.mark.parametrize("metadata", ["", "text", "since=", "since=x", "since=-5"])
def test_an_offset_of_another_client_counts_from_its_own_time(metadata: str) -> None:
    play = Play()
    play.coordinator.stored["g", "t", 0] = Committed(5, -1, metadata, 777)
    assert play.offsets.first_stored_ms("g", "t", 1) == 777


# Resets


def reset(play: Play, offset: int, partition: int = 0) -> None:
    """Reset the offset as an operator."""
    play.offsets.reset("g", "t", partition, offset, lambda c: play.answers.append((offset, c)))


def test_offsets_of_clients_are_ignored_until_the_reset_is_taken() -> None:
    play = Play()
    play.store(9)
    play.coordinator.land()
    reset(play, 2)
    play.store(10)
    assert play.answers[-1] == (10, ErrorCode.NONE)
    play.coordinator.land()
    play.store(11)
    play.store(UNSET)
    assert (play.read(), play.coordinator.flying) == (2, [])
    assert play.offsets.take_reset("g", "t", 0) == 2
    assert play.offsets.take_reset("g", "t", 0) is None
    play.coordinator.land()
    assert play.read() == 2
    play.store(3)
    play.coordinator.land()
    assert play.read() == 3
    assert play.offsets.take_reset("g", "t", 0) is None


def test_a_commit_in_flight_does_not_undo_the_reset_behind_it() -> None:
    play = Play()
    play.store(9)
    reset(play, 2)
    play.store(10)
    play.coordinator.land()
    assert play.read() == 2
    play.coordinator.land()
    assert play.coordinator.asked == [("t", 0, 9), ("t", 0, 2)]
    assert play.answers == [(10, ErrorCode.NONE), (9, ErrorCode.NONE), (2, ErrorCode.NONE)]
    assert play.offsets.is_reset("g", "t", 0)


def test_of_two_resets_the_second_one_is_taken_once() -> None:
    play = Play()
    reset(play, 2)
    reset(play, 5)
    play.coordinator.land()
    play.coordinator.land()
    assert play.offsets.take_reset("g", "t", 0) == 5
    reset(play, 7)
    for _ in range(2):
        play.coordinator.land()
    assert play.offsets.take_reset("g", "t", 0) == 7
    assert play.offsets.take_reset("g", "t", 0) is None


def test_a_reset_concerns_its_queue_alone() -> None:
    play = Play()
    reset(play, 2)
    play.coordinator.land()
    assert play.offsets.take_reset("g", "t", 1) is None
    play.store(4, partition=1)
    play.coordinator.land()
    assert play.offsets.read("g", "t", 1) == 4
    assert play.offsets.take_reset("other", "t", 0) is None
    assert play.offsets.take_reset("g", "t", 0) == 2


def test_a_reset_is_pending_after_a_restart() -> None:
    play = Play()
    play.store(9)
    play.coordinator.land()
    reset(play, 2)
    play.coordinator.land()
    restarted = GroupOffsets(lambda: play.coordinator, cast(Clock, play.clock))
    assert restarted.is_reset("g", "t", 0)
    assert restarted.take_reset("g", "t", 0) == 2
    play.coordinator.land()
    again = GroupOffsets(lambda: play.coordinator, cast(Clock, play.clock))
    assert again.take_reset("g", "t", 0) is None
    assert again.read("g", "t", 0) == 2


def test_a_reset_that_is_not_stored_leaves_the_offset_of_the_client() -> None:
    play = Play()
    play.store(9)
    play.coordinator.land()
    reset(play, 2)
    play.coordinator.land(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert play.answers[-1] == (2, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert play.read() == 9
    assert play.offsets.take_reset("g", "t", 0) is None
    play.store(10)
    play.coordinator.land()
    assert play.read() == 10


def test_a_reset_keeps_the_time_of_the_first_offset() -> None:
    play = Play()
    play.store(9)
    play.coordinator.land()
    play.clock.now_ms = 5000
    reset(play, 2)
    play.coordinator.land()
    assert play.offsets.first_stored_ms("g", "t", 1) == 1000
    play.offsets.take_reset("g", "t", 0)
    play.coordinator.land()
    assert play.offsets.first_stored_ms("g", "t", 1) == 1000


def test_metadata_of_other_clients_is_no_reset() -> None:
    play = Play()
    play.coordinator.stored["g", "t", 0] = Committed(4, -1, "note;reset", 7)
    assert play.offsets.take_reset("g", "t", 0) is None
    assert play.offsets.first_stored_ms("g", "t", 1) == 7
