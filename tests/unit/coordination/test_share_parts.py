"""Share groups part by part: sessions, acknowledgements, and the edges of ranges."""

from typing import NamedTuple

import pytest

from headrace.coordination.share.acknowledgements import Ack, AckKind, acks_of
from headrace.coordination.share.sessions import FINAL_EPOCH, SessionKey, ShareSessions
from headrace.delivery.batches import covering, stretches
from headrace.delivery.cursor import Cursor
from headrace.delivery.cursor_state import CursorState
from headrace.delivery.record_states import Acquired, NotHeld, Outcome
from headrace.model.errors import ApiError, ErrorCode
from headrace.record.batch import Record, build

KEY, OTHER = SessionKey("g", "a"), SessionKey("g", "b")
EPOCH_MAX = (1 << 31) - 1
PARTS = [(bytes(16), index) for index in range(3)]


def _code(error: "pytest.ExceptionInfo[ApiError]") -> ErrorCode:
    return error.value.code


# Sessions


def test_a_session_s_epochs_begin_again_at_1_after_the_last_one() -> None:
    sessions = ShareSessions()
    session = sessions.open(KEY, 1)
    assert sessions.resume(KEY, 1).epoch == 2
    session.epoch = EPOCH_MAX - 1
    assert sessions.resume(KEY, EPOCH_MAX - 1).epoch == EPOCH_MAX
    assert sessions.resume(KEY, EPOCH_MAX).epoch == 1


def test_a_wrong_epoch_changes_nothing_and_the_last_request_may_have_any() -> None:
    sessions = ShareSessions()
    session = sessions.open(KEY, 1)
    for epoch in (0, 2):
        with pytest.raises(ApiError) as refused:
            sessions.resume(KEY, epoch)
        assert _code(refused) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert session.epoch == 1
    assert sessions.resume(KEY, FINAL_EPOCH) is session
    with pytest.raises(ApiError) as refused:
        sessions.resume(OTHER, 1)
    assert _code(refused) is ErrorCode.SHARE_SESSION_NOT_FOUND


def test_there_are_no_more_sessions_than_allowed_and_one_for_each_member() -> None:
    sessions = ShareSessions()
    first = sessions.open(KEY, 1)
    with pytest.raises(ApiError) as refused:
        sessions.open(OTHER, 1)
    assert _code(refused) is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    second = sessions.open(KEY, 1)
    assert len(sessions) == 1
    assert not sessions.close(first), "another is in its place"
    assert sessions.close(second)
    assert not sessions.close(second)
    assert len(sessions) == 0
    sessions.open(OTHER, 1)


def test_partitions_are_added_forgotten_and_have_their_turns() -> None:
    session = ShareSessions().open(KEY, 1)
    session.update(PARTS, [])
    session.had_turn(PARTS[0])
    assert list(session.partitions) == [PARTS[1], PARTS[2], PARTS[0]]
    session.update([PARTS[1]], [PARTS[2]])
    assert list(session.partitions) == [PARTS[1], PARTS[0]]
    session.had_turn(PARTS[2])
    assert list(session.partitions) == [PARTS[1], PARTS[0]]


# Acknowledgements


def test_kinds_of_single_offsets_become_ranges() -> None:
    acks = acks_of([(3, 3, [1]), (4, 9, [1, 1, 2, 3, 3, 0]), (10, 12, [2])], renew=False)
    assert acks == [
        Ack(3, 3, AckKind.ACCEPT), Ack(4, 5, AckKind.ACCEPT), Ack(6, 6, AckKind.RELEASE),
        Ack(7, 8, AckKind.REJECT), Ack(9, 9, AckKind.GAP), Ack(10, 12, AckKind.RELEASE),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "batches",
    [
        [(0, 3, [1]), (3, 4, [1])],
        [(2, 3, [1]), (0, 1, [1])],
        [(1, 0, [1])],
        [(-1, 0, [1])],
        [(0, 2, [1, 1])],
        [(0, 2, [1, 1, 1, 1])],
        [(0, 2, [])],
        [(0, 0, [5])],
        [(0, 0, [-1])],
        [(0, 0, [4])],
    ],
)
def test_acknowledgements_that_make_no_sense_are_refused(
    batches: list[tuple[int, int, list[int]]],
) -> None:
    with pytest.raises(ApiError) as refused:
        acks_of(batches, renew=False)
    assert _code(refused) is ErrorCode.INVALID_REQUEST


def test_renewals_are_taken_where_the_request_announces_them() -> None:
    assert acks_of([(0, 1, [4, 1])], renew=True) == [
        Ack(0, 0, AckKind.RENEW),
        Ack(1, 1, AckKind.ACCEPT),
    ]


# Batches


def _batch(base: int, count: int, **fields: int | bool) -> bytes:
    records = [Record(at, 1000, None, b"v", ()) for at in range(count)]
    return build(records, base_offset=base, **fields)  # type: ignore[arg-type]


class _Aborted(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int


@pytest.mark.parametrize(
    ("aborted", "wanted"),
    [
        (_Aborted(9, 4, 5), False),
        (_Aborted(9, 5, 5), True),
        (_Aborted(9, 0, 3), True),
        (_Aborted(9, 0, 4), False),
        (_Aborted(8, 4, 5), True),
    ],
)
def test_a_batch_is_aborted_from_the_first_to_the_last_offset_of_its_transaction(
    aborted: _Aborted, wanted: bool
) -> None:
    data = _batch(4, 1, producer_id=9, producer_epoch=0, transactional=True)
    assert [one.wanted for one in stretches(data, 4, [aborted])] == [wanted]


def test_a_stretch_begins_in_the_middle_of_a_batch_and_ends_with_its_last_record() -> None:
    data = _batch(0, 3) + _batch(3, 1)
    assert [one[:3] for one in stretches(data, 2)] == [(2, 2, True), (3, 3, True)]
    assert [one[:3] for one in stretches(data, 3)] == [(3, 3, True)]


def test_a_record_at_either_end_of_a_batch_has_the_batch_sent() -> None:
    whole = [_batch(0, 2), _batch(2, 2), _batch(4, 2), _batch(6, 2)]
    data = b"".join(whole)
    found = list(stretches(data, 0))
    sent = covering(data, found, [Acquired(1, 1, 1), Acquired(4, 4, 1)])
    assert [bytes(one) for one in sent] == [whole[0], whole[2]]
    (sent_middle,) = covering(data, found, [Acquired(3, 4, 1)])
    assert bytes(sent_middle) == whole[1] + whole[2]
    assert covering(data, found, []) == []


# The edges of a cursor


def test_the_first_offset_never_handed_out_can_not_be_settled() -> None:
    cursor = Cursor(0)
    cursor.acquire(0, 2, "a", now=0.0)
    with pytest.raises(NotHeld, match="offset 3 was never handed out"):
        cursor.settle("a", 0, 3, Outcome.ACCEPT)
    assert (cursor.out, cursor.start) == (3, 0), "then nothing is done"
    cursor.settle("a", 0, 2, Outcome.ACCEPT)
    assert cursor.start == 3


def test_no_more_new_records_than_asked_for_go_out() -> None:
    cursor = Cursor(0)
    assert cursor.acquire(0, 9, "a", now=0.0, limit=3) == [Acquired(0, 2, 1)]
    assert cursor.end == 3
    cursor.settle("a", 0, 1, Outcome.RELEASE)
    given = cursor.acquire(0, 9, "b", now=0.0, limit=3)
    assert given == [Acquired(0, 1, 2), Acquired(3, 3, 1)]
    assert cursor.acquire(0, 9, "b", now=0.0, limit=0) == []


def test_what_the_log_loses_at_its_front_is_out_with_nobody() -> None:
    cursor = Cursor(0)
    cursor.acquire(0, 3, "a", now=0.0, deadline=5.0)
    cursor.settle("a", 1, 1, Outcome.ACCEPT)
    cursor.forget_below(0)
    assert cursor.out == 3
    cursor.forget_below(3)
    assert (cursor.start, cursor.out, cursor.settled) == (3, 1, 0)
    assert cursor.holds("a") == 1
    cursor.forget_below(4)
    assert (cursor.start, cursor.end, cursor.out, cursor.holds("a")) == (4, 4, 0, 0)
    assert cursor.next_deadline() is None
    cursor.forget_below(9)
    assert (cursor.start, cursor.end) == (9, 9)
    assert cursor.take_change() == CursorState(9, (), 0)


def test_a_window_that_is_full_has_room_for_nothing_new() -> None:
    cursor = Cursor(0, window=5)
    cursor.acquire(0, 4, "a", now=0.0)
    assert (cursor.room, cursor.can_acquire(0.0)) == (0, False)
    assert cursor.acquire(5, 9, "b", now=0.0) == []
    cursor.settle("a", 1, 1, Outcome.ACCEPT)
    assert cursor.room == 0, "it begins at what is not settled"
    cursor.settle("a", 0, 0, Outcome.ACCEPT)
    assert (cursor.room, cursor.can_acquire(0.0)) == (2, True)
