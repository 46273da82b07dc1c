"""Frames that a leader sends to a copy of a queue's settled positions, and its answers."""

from headrace.broker.partition import Partition
from headrace.copies.frame_copy import UNSENT_BYTES_MAX, FrameCopy
from headrace.copies.messages import CopyAnswer
from headrace.delivery.settled_state import NO_FRAME, FrameName
from headrace.model.errors import ErrorCode
from tests.support.log.log import World
from tests.support.queues.followers import taken
from tests.support.queues.log import CONFIG, PLACE

WHOLE = FrameName(3, 1)
MUCH = 1 << 20


def copy_of() -> FrameCopy:
    world = World(config=CONFIG)
    return FrameCopy(Partition(world.log(PLACE), flusher=world.directory.flusher))


def follows() -> FrameCopy:
    """A copy that has a complete frame."""
    copy = copy_of()
    copy.add(WHOLE, b"whole", whole=True)
    assert copy.answered(taken(copy.question(MUCH)))
    return copy


def test_frames_before_a_complete_one_are_not_sent() -> None:
    copy = copy_of()
    copy.add(FrameName(3, 5), b"change", whole=False)
    assert copy.needs_whole
    assert not copy.has_unsent
    assert copy.question(MUCH).content == b""
    assert copy.confirmed == NO_FRAME


def test_frames_are_sent_together_and_forgotten_once_confirmed() -> None:
    copy = follows()
    for number, body in ((2, b"two"), (3, b"three")):
        copy.add(FrameName(3, number), body, whole=False)
    question = copy.question(MUCH)
    assert (question.content, question.follows) == (b"twothree", WHOLE)
    assert question.last == FrameName(3, 3)
    assert copy.answered(taken(question))
    assert not copy.has_unsent
    assert copy.confirmed == FrameName(3, 3)


def test_request_has_as_many_frames_as_its_bytes_allow_and_at_least_one() -> None:
    copy = follows()
    for number in (2, 3, 4):
        copy.add(FrameName(3, number), b"x" * 10, whole=False)
    assert copy.question(20).last == FrameName(3, 3)
    assert copy.question(1).last == FrameName(3, 2)


def test_lost_answer_has_the_same_frames_sent_again_with_those_since() -> None:
    copy = follows()
    copy.add(FrameName(3, 2), b"two", whole=False)
    copy.question(MUCH)
    copy.add(FrameName(3, 3), b"three", whole=False)
    question = copy.question(MUCH)
    assert (question.content, question.follows) == (b"twothree", WHOLE)


def test_large_complete_frame_is_sent_in_parts_from_where_the_follower_is() -> None:
    copy = copy_of()
    copy.add(WHOLE, b"0123456789", whole=True)
    question = copy.question(4)
    assert (question.content, question.position, question.whole_bytes) == (b"0123", 0, 10)
    assert copy.answered(taken(question))
    question = copy.question(4)
    assert (question.content, question.position) == (b"4567", 4)
    assert not copy.answered(CopyAnswer(part_end=0)), "the follower has lost the first part"
    question = copy.question(100)
    assert (question.content, question.position) == (b"0123456789", 0)
    assert copy.answered(taken(question))
    assert copy.confirmed == WHOLE


def test_complete_frame_during_another_replaces_it() -> None:
    copy = copy_of()
    copy.add(WHOLE, b"0123456789", whole=True)
    question = copy.question(4)
    copy.add(FrameName(3, 2), b"abc", whole=True)
    copy.answered(taken(question))
    assert copy.question(100).content == b"abc"


def test_more_than_a_mebibyte_of_unsent_frames_needs_a_complete_one() -> None:
    copy = follows()
    needs = []
    for number, size in ((2, UNSENT_BYTES_MAX), (3, 1)):
        copy.add(FrameName(3, number), bytes(size), whole=False)
        needs.append(copy.needs_whole)
    assert needs == [False, True]
    assert copy.unsent_bytes == 0
    assert copy.confirmed == WHOLE, "what the follower has it still has"


def test_follower_that_has_lost_confirmed_frames_needs_a_complete_one() -> None:
    copy = follows()
    copy.add(FrameName(3, 2), b"two", whole=False)
    copy.question(MUCH)
    assert not copy.answered(CopyAnswer(last=NO_FRAME))
    assert copy.confirmed == NO_FRAME
    assert copy.needs_whole


def test_error_of_a_partition_changes_nothing() -> None:
    copy = follows()
    copy.add(FrameName(3, 2), b"two", whole=False)
    copy.question(MUCH)
    assert not copy.answered(CopyAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert copy.question(MUCH).content == b"two"
    assert copy.confirmed == WHOLE
