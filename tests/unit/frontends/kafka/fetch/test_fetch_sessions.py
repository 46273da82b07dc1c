"""Fetch sessions: epochs, ids, and whose place is taken where there are too many."""

import pytest

from headrace.frontends.kafka.fetch.fetch_sessions import EVICTION_SECONDS, FetchSessions
from headrace.frontends.kafka.fetch.wanted_partitions import WantedPartition
from headrace.model.errors import ApiError, ErrorCode
from headrace.security.identity import Principal
from headrace.wire.kafka.hot.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from tests.support.coordination.groups_kit import CountingRandom, HandClock

BY_NAME, BY_ID = 12, 13


class FirstRandom(CountingRandom):
    """The first four bytes of its ids are what the test says, then count on."""

    def __init__(self, *first: int) -> None:
        super().__init__()
        self.first = list(first)

    def uuid(self) -> bytes:
        """The next id."""
        drawn = self.first.pop(0) if self.first else int.from_bytes(super().uuid(), "big") + 1000
        return drawn.to_bytes(4, "big") + bytes(12)


def asks(
    count: int, *, session: int = 0, epoch: int = 0, forgets: tuple[int, ...] = ()
) -> FetchRequest:
    """A request for `count` partitions of topic t."""
    partitions = [FetchPartition(number, -1, 0, -1, -1, 100) for number in range(count)]
    topics = [FetchTopic("t", b"i" * 16, partitions)] if count else []
    forgotten = [ForgottenTopic("t", b"i" * 16, list(forgets))] if forgets else []
    return FetchRequest(
        0, 0, 0, session_id=session, session_epoch=epoch, topics=topics, forgotten=forgotten
    )


def sessions(places: int = 2, *first: int) -> tuple[FetchSessions, HandClock]:
    """Sessions with so many places, and their clock."""
    clock = HandClock()
    return FetchSessions(clock, FirstRandom(*first), places), clock


@pytest.mark.parametrize(("version", "key"), [(BY_NAME, "t"), (BY_ID, b"i" * 16)])
def test_a_session_keeps_what_is_asked_and_drops_what_is_forgotten(
    version: int, key: str | bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, _ = sessions()
    session = kept.open(version, asks(2))
    assert session is not None
    assert sorted(session.wanted.by_key) == [(key, 0), (key, 1)]
    watched = session.wanted.by_key[key, 0]
    gone: list[WantedPartition] = []
    monkeypatch.setattr(WantedPartition, "unwatch", lambda it: gone.append(it))
    again = kept.resume(version, asks(3, session=session.session_id, epoch=1, forgets=(0,)))
    assert again is session
    assert sorted(number for _, number in session.wanted.by_key) == [1, 2]
    assert gone == [watched]
    assert watched not in session.wanted.ready


def test_epochs_count_up_and_begin_again_at_one() -> None:
    kept, _ = sessions()
    session = kept.open(BY_NAME, asks(1))
    assert session is not None
    assert session.epoch == 1
    for epoch in (1, 2):
        kept.resume(BY_NAME, asks(0, session=session.session_id, epoch=epoch))
        assert session.epoch == epoch + 1
    for last, following in ((2**31 - 2, 2**31 - 1), (2**31 - 1, 1)):
        session.epoch = last
        kept.resume(BY_NAME, asks(0, session=session.session_id, epoch=last))
        assert session.epoch == following


def test_what_does_not_go_on_a_session_is_refused_with_its_reason() -> None:
    kept, _ = sessions()
    session = kept.open(BY_NAME, asks(1))
    assert session is not None
    number = session.session_id
    for version, request, code in (
        (BY_NAME, asks(0, session=number + 1, epoch=1), ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (BY_NAME, asks(0, session=number, epoch=2), ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (BY_ID, asks(0, session=number, epoch=1), ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
    ):
        with pytest.raises(ApiError) as refused:
            kept.resume(version, request)
        assert refused.value.code is code
        assert session.epoch == 1


def test_ids_are_above_zero_and_each_is_one_sessions() -> None:
    kept, _ = sessions(9, 0, 1 << 31, 5, 5, 6, (1 << 32) - 1)
    opened = [kept.open(BY_NAME, asks(1)) for _ in range(3)]
    assert [one.session_id for one in opened if one] == [5, 6, 2**31 - 1]


def test_who_asks_for_nothing_gets_no_session_and_who_asks_anew_loses_the_old_one() -> None:
    kept, _ = sessions()
    assert kept.open(BY_NAME, asks(0)) is None
    first = kept.open(BY_NAME, asks(1))
    assert first is not None
    second = kept.open(BY_NAME, asks(1, session=first.session_id))
    assert (len(kept), second is first) == (1, False)
    kept.close(0)
    kept.close(12345)
    assert len(kept) == 1
    assert kept.evicted == 0


def test_without_places_there_are_no_sessions() -> None:
    kept, _ = sessions(0)
    assert kept.open(BY_NAME, asks(1)) is None


def test_session_unused_longest_is_evicted_though_another_is_older() -> None:
    kept, clock = sessions()
    older, unused = kept.open(BY_NAME, asks(5)), kept.open(BY_NAME, asks(5))
    assert older is not None
    assert unused is not None
    clock.advance(EVICTION_SECONDS + 1)
    kept.resume(BY_NAME, asks(0, session=older.session_id, epoch=1))
    assert kept.open(BY_NAME, asks(1)) is not None
    kept.resume(BY_NAME, asks(0, session=older.session_id, epoch=2))
    with pytest.raises(ApiError) as refused:
        kept.resume(BY_NAME, asks(0, session=unused.session_id, epoch=1))
    assert refused.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize(("elapsed", "taken"), [(EVICTION_SECONDS, False), (120.1, True)])
def test_the_place_of_one_unused_for_two_minutes_is_taken(elapsed: float, taken: bool) -> None:
    kept, clock = sessions()
    first, second = kept.open(BY_NAME, asks(5)), kept.open(BY_NAME, asks(5))
    assert first is not None
    assert second is not None
    clock.advance(elapsed)
    kept.resume(BY_NAME, asks(0, session=second.session_id, epoch=1))
    assert (kept.open(BY_NAME, asks(1)) is not None) is taken
    assert (len(kept), kept.evicted) == (2, int(taken))
    if taken:
        with pytest.raises(ApiError, match="FETCH_SESSION_ID_NOT_FOUND"):
            kept.resume(BY_NAME, asks(0, session=first.session_id, epoch=1))


@pytest.mark.parametrize(("wanted", "taken"), [(3, False), (4, True)])
def test_a_larger_session_takes_the_place_of_the_smallest_that_has_lived_two_minutes(
    wanted: int, taken: bool
) -> None:
    kept, clock = sessions(3)
    opened = [kept.open(BY_NAME, asks(count)) for count in (5, 3)]
    clock.advance(100)
    young = kept.open(BY_NAME, asks(1))
    clock.advance(20.5)
    for session in (*opened, young):
        assert session is not None
        kept.resume(BY_NAME, asks(0, session=session.session_id, epoch=1))
    assert (kept.open(BY_NAME, asks(wanted)) is not None) is taken
    assert kept.evicted == int(taken)
    left = [len(session.wanted.by_key) for session in kept._sessions.values()]
    assert sorted(left) == ([1, 4, 5] if taken else [1, 3, 5])


def test_a_session_is_its_owners_and_nobody_else_resumes_or_ends_it() -> None:
    alice, eve = Principal("User", "alice"), Principal("User", "eve")
    kept, _ = sessions()
    session = kept.open(BY_NAME, asks(2), alice)
    assert session is not None
    with pytest.raises(ApiError) as refused:
        kept.resume(BY_NAME, asks(0, session=session.session_id, epoch=1), eve)
    assert refused.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    kept.close(session.session_id, -1, eve)
    assert kept.open(BY_NAME, asks(1, session=session.session_id), eve) is not session
    assert kept.resume(BY_NAME, asks(0, session=session.session_id, epoch=1), alice) is session
    kept.close(session.session_id, -1, alice)
    with pytest.raises(ApiError):
        kept.resume(BY_NAME, asks(0, session=session.session_id, epoch=2), alice)
