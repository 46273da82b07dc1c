"""Bugs planted into queues on another broker are found within a few hundred histories."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from headrace.queues.stores.log.log_writing import LogWriting
from headrace.record.record_parts import NO_PRODUCER
from headrace.remote_queues.calls import CallsIn, CallsOut
from headrace.remote_queues.events import EventsIn
from headrace.remote_queues.home.home_session import HomeSession
from headrace.remote_queues.home.remote_consumer import RemoteConsumer
from headrace.remote_queues.home.remote_publishes import RemotePublishes
from headrace.remote_queues.home.remote_queue import RemoteQueue
from headrace.remote_queues.leader import leader_session
from headrace.remote_queues.leader.leader_session import LeaderSession
from headrace.remote_queues.leader.remote_channel import RemoteChannel
from headrace.remote_queues.messages import Call, Credit, Delivered, Event, Hold, Stored
from tests.support.queues.remote_history import play_late_events, played

SEEDS = 200
STEPS = 200
Plant = Callable[[pytest.MonkeyPatch], None]


def raised_credit_is_not_sent_again(patch: pytest.MonkeyPatch) -> None:
    """Remote credit lost: a raise that the connection lost is not repeated."""
    take, sealed = CallsOut.take, "_sealed"

    def patched(self: CallsOut) -> tuple[int, Sequence[Call]] | None:
        before = getattr(self, sealed)
        taken = take(self)
        if taken is None:
            return None
        first, calls = taken
        again = max(before - first, 0)
        lost = [
            call._replace(credit=0) if isinstance(call, Credit) else call for call in calls[:again]
        ]
        return first, [*lost, *calls[again:]]

    patch.setattr(CallsOut, "take", patched)


def credit_is_a_difference(patch: pytest.MonkeyPatch) -> None:
    """Credit twice: the home sends differences, and a repeated call raises the credit again."""
    take, grant = CallsIn.take, RemoteConsumer.grant

    def repeated(self: CallsIn, first: int, calls: Sequence[Call]) -> Sequence[Call]:
        skipped = calls[: max(self.expected - first, 0)]
        again = [call for call in skipped if isinstance(call, Credit)]
        return [*again, *take(self, first, calls)]

    def granted(self: Any, remote: RemoteConsumer) -> None:
        before = remote.granted
        if grant(remote):
            self._session.call(Credit(self._queue, remote.key, remote.granted - before))

    def added(self: RemoteChannel, credit: int) -> bool:
        self.limit += credit
        return self.wake()

    patch.setattr(CallsIn, "take", repeated)
    patch.setattr(RemoteQueue, "_grant", granted)
    patch.setattr(RemoteChannel, "raise_credit", added)


def events_of_an_ended_session_are_taken(patch: pytest.MonkeyPatch) -> None:
    """Event of an older epoch accepted: consumers' numbers begin again with each session."""
    present: dict[Any, RemoteQueue] = {}
    begin = RemoteQueue.begin

    def begun(self: Any, session: HomeSession) -> None:
        self._next_key = 0
        present[0] = self
        begin(self, session)

    def polled(self: Any, first: int, events: Sequence[Event]) -> None:
        channels = {present[0].take(event) for event in self._events.take(first, events)}
        for channel in channels:
            if channel is not None:
                channel.send()

    patch.setattr(RemoteQueue, "begin", begun)
    patch.setattr(HomeSession, "polled", polled)


def repeated_events_are_taken(patch: pytest.MonkeyPatch) -> None:
    """An event that arrives again is taken again."""
    take = EventsIn.take

    def patched(self: Any, first: int, events: Sequence[Event]) -> Sequence[Event]:
        skipped = events[: max(self._expected - first, 0)]
        return [
            *(each for each in skipped if isinstance(each, Delivered)),
            *take(self, first, events),
        ]

    patch.setattr(EventsIn, "take", patched)


def repeated_calls_are_taken(patch: pytest.MonkeyPatch) -> None:
    """A call that arrives again is carried out again."""

    def patched(self: CallsIn, first: int, calls: Sequence[Call]) -> Sequence[Call]:
        self.expected = max(self.expected, first + len(calls))
        return calls

    patch.setattr(CallsIn, "take", patched)


def sent_publishes_are_extended(patch: pytest.MonkeyPatch) -> None:
    """A publish call that the leader may have is extended once it is to be sent again."""
    patch.setattr(CallsOut, "may_grow", lambda self, number: number >= self._sent)


def unreceived_deliveries_of_a_cancelled_consumer_are_held(patch: pytest.MonkeyPatch) -> None:
    """The leader holds deliveries that the home drops: they are stuck."""
    patch.setattr(RemoteChannel, "unreceived", lambda self, received: [])


def confirm_at_the_append(patch: pytest.MonkeyPatch) -> None:
    """The home reports messages as stored when the leader has taken the call."""
    answered = HomeSession.calls_answered

    def patched(self: Any, below: int) -> None:
        for queue in tuple(self._queues.values()):
            for first in tuple(queue._publishes._batches):
                queue.take(Stored(0, first, ()))
        answered(self, below)

    patch.setattr(HomeSession, "calls_answered", patched)


def lost_session_keeps_its_deliveries(patch: pytest.MonkeyPatch) -> None:
    """The leader does not requeue what a lost home has not settled."""
    patch.setattr(LeaderSession, "_requeue", lambda *_: None)


def held_positions_are_not_named(patch: pytest.MonkeyPatch) -> None:
    """An attach without positions: the next leader delivers them again."""
    patch.setitem(leader_session._HANDLERS, Hold, lambda *_: None)


def settlements_are_not_repeated(patch: pytest.MonkeyPatch) -> None:
    """The next leader is not told of settlements that the former one has not taken."""
    patch.setattr(RemoteQueue, "_keep", lambda *_: None)


def batches_are_sent_again_under_new_numbers(patch: pytest.MonkeyPatch) -> None:
    """The log does not recognise a batch that its home sends to the next leader."""
    take_place = RemotePublishes._take_place

    def taken(self: RemotePublishes, batch: Any) -> None:
        batch.producer = NO_PRODUCER
        take_place(self, batch)

    patch.setattr(RemotePublishes, "_take_place", taken)


def undecided_publishes_are_dropped(patch: pytest.MonkeyPatch) -> None:
    """The home does not send its undecided batches to the next leader."""
    lost = RemotePublishes.lost
    patch.setattr(RemotePublishes, "lost", lambda self, keep: lost(self, keep=False))


def repeated_batches_are_appended(patch: pytest.MonkeyPatch) -> None:
    """The leader does not look whether the log has a batch."""
    patch.setattr(LogWriting, "has_batch", lambda *_: False)


@pytest.mark.parametrize(
    "plant",
    [
        held_positions_are_not_named,
        settlements_are_not_repeated,
        batches_are_sent_again_under_new_numbers,
        undecided_publishes_are_dropped,
        repeated_batches_are_appended,
    ],
)
def test_planted_bug_of_a_leader_change_is_found(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        play_all(moves=True)


@pytest.mark.parametrize(
    "plant",
    [
        raised_credit_is_not_sent_again,
        credit_is_a_difference,
        repeated_events_are_taken,
        repeated_calls_are_taken,
        sent_publishes_are_extended,
        unreceived_deliveries_of_a_cancelled_consumer_are_held,
        confirm_at_the_append,
        lost_session_keeps_its_deliveries,
    ],
)
def test_planted_bug_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        play_all()


def test_event_of_an_ended_session_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    play_late_events()
    events_of_an_ended_session_are_taken(monkeypatch)
    with pytest.raises(AssertionError, match="an ended session"):
        play_late_events()


def play_all(*, moves: bool = False) -> None:
    for seed in range(SEEDS):
        played(seed, STEPS, moves=moves)
