"""A follower's copy of settled positions: what it takes, what it refuses, when it answers."""

from dataclasses import replace

from headrace.copies.messages import CopyAnswer
from headrace.delivery.settled_runs import runs_of
from headrace.delivery.settled_state import (
    NO_FRAME,
    FrameName,
    SettledState,
    encode_frame,
)
from headrace.model.errors import ErrorCode
from headrace.model.nouns import LeaderEpoch
from tests.support.log.log import World, append, overwrite
from tests.support.queues.followers import LEADER, FollowerKit, frame
from tests.support.queues.log import CONFIG

WHOLE = frame(1, whole=True)
FIRST = FrameName(1, 1)
SECOND = FrameName(1, 2)


def with_first() -> FollowerKit:
    here = FollowerKit()
    assert here.take_whole(WHOLE, FIRST) == CopyAnswer(last=FIRST)
    return here


def test_complete_frame_replaces_the_file() -> None:
    here = FollowerKit()
    here.world.settle()
    overwrite(here.world.disk, here.path, frame(9, epoch=0))
    assert here.take_whole(WHOLE, FIRST).last == FIRST
    assert here.file == WHOLE


def test_frames_are_answered_after_their_flush() -> None:
    here = with_first()
    told = here.ask(here.question(frame(2), follows=FIRST, last=SECOND))
    here.world.clock.turn()
    assert here.file == WHOLE + frame(2), "they are written, and not flushed"
    assert not told
    here.world.settle()
    assert told == [CopyAnswer(last=SECOND)]


def test_frame_of_an_older_epoch_is_refused() -> None:
    here = with_first()
    here.partition.role.follow(LEADER, LeaderEpoch(3))
    old = here.question(frame(2), epoch=2, follows=FIRST, last=SECOND)
    assert here.answer(old).error is ErrorCode.FENCED_LEADER_EPOCH
    assert here.file == WHOLE


def test_frames_are_refused_once_a_later_leader_has_asked() -> None:
    here = with_first()
    assert here.answer(here.question(epoch=2)) == CopyAnswer(last=FIRST)
    old = here.question(frame(2), epoch=1, follows=FIRST, last=SECOND)
    assert here.answer(old).error is ErrorCode.FENCED_LEADER_EPOCH


def test_leader_and_a_broker_without_the_partition_take_nothing() -> None:
    here = FollowerKit()
    other = here.question()._replace(topic_id=b"o" * 16)
    assert here.answer(other).error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    here.partition.role.lead(LeaderEpoch(2))
    assert here.answer(here.question(epoch=3)).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert here.answer(here.question(epoch=2)).error is ErrorCode.FENCED_LEADER_EPOCH


def test_request_that_comes_twice_changes_nothing() -> None:
    here = with_first()
    question = here.question(frame(2), follows=FIRST, last=SECOND)
    for _ in range(2):
        assert here.answer(question) == CopyAnswer(last=SECOND)
    assert here.take_whole(WHOLE, FIRST) == CopyAnswer(last=SECOND)
    assert here.file == WHOLE + frame(2)


def test_frames_that_are_sent_again_with_later_ones_are_written_once() -> None:
    here = with_first()
    here.answer(here.question(frame(2), follows=FIRST, last=SECOND))
    again = here.question(frame(2) + frame(3), follows=FIRST, last=FrameName(1, 3))
    assert here.answer(again).last == FrameName(1, 3)
    assert here.file == WHOLE + frame(2) + frame(3)


def test_frames_behind_a_missing_one_are_not_written() -> None:
    here = with_first()
    gap = here.question(frame(3), follows=SECOND, last=FrameName(1, 3))
    assert here.answer(gap) == CopyAnswer(last=FIRST)
    assert here.file == WHOLE


def test_damaged_frames_are_not_written() -> None:
    here = with_first()
    damaged = bytearray(frame(2))
    damaged[20] ^= 1
    assert here.answer(here.question(bytes(damaged), follows=FIRST, last=SECOND)).last == FIRST
    damaged = bytearray(frame(3, whole=True))
    damaged[20] ^= 1
    assert here.take_whole(bytes(damaged), FrameName(1, 3)) == CopyAnswer(last=FIRST)
    change = frame(3)
    assert here.take_whole(change, FrameName(1, 3)) == CopyAnswer(last=FIRST), "it is no whole one"
    assert here.file == WHOLE


def test_complete_frame_arrives_in_parts_in_order() -> None:
    here = FollowerKit()
    size = len(WHOLE)

    def part(first: int, end: int) -> CopyAnswer:
        return here.answer(
            here.question(WHOLE[first:end], last=FIRST, whole_bytes=size, position=first)
        )

    assert part(0, 10) == CopyAnswer(part_end=10)
    assert part(20, 30) == CopyAnswer(part_end=10)
    assert part(10, 30) == CopyAnswer(part_end=30)
    assert part(0, 10) == CopyAnswer(part_end=10), "the leader begins again"
    assert part(10, size) == CopyAnswer(last=FIRST)
    assert here.file == WHOLE


def test_file_with_a_torn_tail_goes_on_after_its_last_frame() -> None:
    here = FollowerKit()
    overwrite(here.world.disk, here.path, WHOLE + frame(2)[:30])
    assert here.answer(here.question()).last == FIRST
    here.answer(here.question(frame(2), follows=FIRST, last=SECOND))
    assert here.file == WHOLE + frame(2)


def test_new_leader_reads_the_file_from_any_byte() -> None:
    here = with_first()
    answer = here.answer(here.question(epoch=2, read_from=10))
    assert answer == CopyAnswer(last=FIRST, file_bytes=len(WHOLE), content=WHOLE[10:])


def test_broker_that_becomes_the_leader_writes_no_more_frames() -> None:
    here = with_first()
    told = here.ask(here.question(frame(2), follows=FIRST, last=SECOND))
    here.followed.stop(here.partition)
    here.world.settle()
    assert [answer.error for answer in told] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert here.file == WHOLE


def test_failed_write_is_answered_and_takes_the_directory_offline() -> None:
    here = with_first()
    here.world.disk.fail_syncs()
    answer = here.answer(here.question(frame(2), follows=FIRST, last=SECOND))
    assert answer.error is ErrorCode.KAFKA_STORAGE_ERROR
    assert here.partition.log.context.failure is not None


def test_complete_frame_deletes_settled_segments_from_between_others() -> None:
    here = FollowerKit(World(config=replace(CONFIG, retention_ms=-1)))
    log = here.partition.log
    for _ in range(6):
        append(log, b"x" * 3000)
    here.world.flush(log)
    runs = runs_of([(2, 3), (5, 5)])
    state = SettledState(1, 1, 6, runs, (), 0, 0, 0, False, True, False, 1)
    assert here.take_whole(encode_frame(state), FIRST).last == FIRST
    here.world.settle()
    assert [segment.base_offset for segment in log.segments] == [0, 1, 4, 5]
    assert log.start_offset == 0


def test_settled_segments_that_are_retained_are_not_deleted_by_a_frame() -> None:
    here = FollowerKit(World(config=replace(CONFIG, retention_ms=1000)))
    log = here.partition.log
    for _ in range(6):
        append(log, b"x" * 3000)
    here.world.flush(log)
    state = SettledState(1, 1, 6, runs_of([(2, 3)]), (), 0, 0, 0, False, True, False, 1)
    here.take_whole(encode_frame(state), FIRST)
    here.world.settle()
    assert len(log.segments) == 6


def test_follower_without_a_file_has_no_frame() -> None:
    here = FollowerKit()
    assert here.answer(here.question()) == CopyAnswer(last=NO_FRAME)
    assert not here.world.disk.exists(here.path)
