"""A follower's end of a fetch session tells its leader each change once (KIP-227)."""

import pytest

from headrace.model.errors import ApiError, ErrorCode
from headrace.replication.fetch_session import FetchSession, Key
from headrace.wire.kafka.hot.fetch import FetchPartition

ONE, TWO = bytes(15) + b"\x01", bytes(15) + b"\x02"


def asked(index: int, offset: int) -> FetchPartition:
    return FetchPartition(index, 3, offset, 2, 0, 1000)


def answered(session: FetchSession, session_id: int = 7) -> None:
    assert session.answered(0, session_id)


def test_what_is_asked_for_as_before_is_not_told_again() -> None:
    session = FetchSession()
    wanted: list[tuple[Key, FetchPartition | None]] = [
        ((ONE, 0), asked(0, 5)), ((ONE, 1), asked(1, 6)), ((TWO, 0), asked(0, 7)),
    ]  # fmt: skip
    told = session.tell(wanted)
    assert [(topic.topic_id, len(topic.partitions)) for topic in told.topics] == [
        (ONE, 2),
        (TWO, 1),
    ]
    answered(session)
    assert (session.session_id, session.epoch, session.begins) == (7, 1, False)
    told = session.tell([((ONE, 0), asked(0, 5)), ((ONE, 1), asked(1, 9))])
    assert [(topic.topic_id, topic.partitions) for topic in told.topics] == [(ONE, [asked(1, 9)])]
    assert told.forgotten == []


def test_what_is_not_asked_for_now_is_forgotten_once() -> None:
    session = FetchSession()
    session.tell([((ONE, 0), asked(0, 5)), ((ONE, 1), asked(1, 5))])
    answered(session)
    told = session.tell([((ONE, 1), None), ((TWO, 4), None)])
    assert told.topics == []
    assert [(topic.topic_id, topic.partitions) for topic in told.forgotten] == [(ONE, [1])]
    assert session.tell([((ONE, 1), None)]).forgotten == []
    (again,) = session.tell([((ONE, 1), asked(1, 5))]).topics
    assert again.partitions == [asked(1, 5)]


def test_epochs_count_from_one_and_begin_again_behind_the_greatest() -> None:
    session = FetchSession()
    assert session.epoch == 0
    answered(session)
    answered(session)
    assert session.epoch == 2
    session.epoch = (1 << 31) - 1
    answered(session)
    assert session.epoch == 1


@pytest.mark.parametrize(
    ("code", "left"),
    [
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 7),
        (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, 7),
        (ErrorCode.INCONSISTENT_TOPIC_ID, 7),
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0),
    ],
)
def test_a_leader_that_does_not_know_the_session_is_told_everything(
    code: ErrorCode, left: int
) -> None:
    """It ends the one it may have, by its id."""
    session = FetchSession()
    session.tell([((ONE, 0), asked(0, 5))])
    answered(session)
    assert not session.answered(code, 0)
    assert session.begins
    assert session.session_id == left
    (topic,) = session.tell([((ONE, 0), asked(0, 5))]).topics
    assert topic.partitions == [asked(0, 5)]


def test_a_leader_without_room_for_a_session_is_told_everything_each_time() -> None:
    session = FetchSession()
    session.tell([((ONE, 0), asked(0, 5))])
    answered(session, 0)
    assert session.begins
    assert len(session.tell([((ONE, 0), asked(0, 5))]).topics) == 1


def test_another_error_is_raised_and_the_session_is_as_it_was() -> None:
    session = FetchSession()
    answered(session)
    with pytest.raises(ApiError, match="NOT_CONTROLLER"):
        session.answered(ErrorCode.NOT_CONTROLLER, 0)
    assert (session.session_id, session.epoch) == (7, 1)
