"""Bugs planted into queues on another broker are found within a few hundred histories."""

from collections.abc import Sequence
from itertools import islice
from typing import Any

import pytest

from headrace.queue_stores.log.log_writing import LogWriting
from headrace.queues.engine.awaited_settlements import _Waiting
from headrace.remote_queues.calls import CallsIn, CallsOut
from headrace.remote_queues.events import EventsIn
from headrace.remote_queues.home.home_session import HomeSession
from headrace.remote_queues.home.remote_consumer import RemoteConsumer
from headrace.remote_queues.home.remote_consumers import RemoteConsumers
from headrace.remote_queues.home.remote_publishes import RemotePublishes
from headrace.remote_queues.home.remote_queue import RemoteQueue
from headrace.remote_queues.home.remote_settlements import RemoteSettlements
from headrace.remote_queues.leader.leader_session import LeaderSession
from headrace.remote_queues.leader.led_queue import LedQueue
from headrace.remote_queues.leader.remote_channel import RemoteChannel
from headrace.remote_queues.messages import (
    Call,
    Credit,
    Delivered,
    Event,
    Publish,
    Settle,
    Stored,
)
from tests.support.queues.remote_history import play_late_events, played
from tests.support.sim.queues.planted import (
    Plant,
    batches_have_new_sequences,
    held_positions_are_not_named,
    raised_credit_is_not_sent_again,
    settlements_are_not_repeated,
    without_recalls,
)

SEEDS = 200
STEPS = 200


def credit_is_a_difference(patch: pytest.MonkeyPatch) -> None:
    """Credit twice: the home sends differences, and a repeated call raises the credit again."""
    take, grant = LeaderSession.take, RemoteConsumer.grant

    def repeated(self: Any, first: int, calls: Sequence[Call], done: Any) -> None:
        for call in calls[: max(self._calls.expected - first, 0)]:
            if isinstance(call, Credit):
                self._call(call)
        take(self, first, calls, done)

    def granted(self: Any, remote: RemoteConsumer) -> None:
        before, link = remote.granted, self._link
        if link.session is not None and grant(remote):
            link.session.call(Credit(link.queue, remote.key, remote.granted - before))

    def added(self: RemoteChannel, credit: int) -> bool:
        self.limit += credit
        return self.wake()

    patch.setattr(LeaderSession, "take", repeated)
    patch.setattr(RemoteConsumers, "_grant", granted)
    patch.setattr(RemoteChannel, "raise_credit", added)
    without_recalls(patch)


def events_of_an_ended_session_are_taken(patch: pytest.MonkeyPatch) -> None:
    """Event of an older epoch accepted: consumers' numbers begin again with each session."""
    present: dict[Any, RemoteQueue] = {}
    begin = RemoteQueue.begin

    def begun(self: Any, session: HomeSession) -> None:
        self._link._next_key = 0
        self._settlements.gets = 0
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
    patch.setattr(LedQueue, "_requeue", lambda *_: None)


def undecided_publishes_are_dropped(patch: pytest.MonkeyPatch) -> None:
    """The home does not send its undecided batches to the next leader."""
    lost = RemotePublishes.lost
    patch.setattr(RemotePublishes, "lost", lambda self, keep: lost(self, keep=False))


def repeated_batches_are_appended(patch: pytest.MonkeyPatch) -> None:
    """The leader does not look whether the log has a batch."""
    patch.setattr(LogWriting, "has_batch", lambda *_: False)


def settlements_are_forgotten_when_taken(patch: pytest.MonkeyPatch) -> None:
    """The home forgets a settlement once the leader has taken the call."""
    answered = HomeSession.calls_answered

    def patched(self: Any, below: int) -> None:
        taken = islice(self.calls.unanswered(), max(below - self.calls._first, 0))
        numbers = [call.number for call in taken if isinstance(call, Settle)]
        answered(self, below)
        for queue in self._queues.values():
            queue._settlements.copied(numbers)

    patch.setattr(HomeSession, "calls_answered", patched)


def copied_settlements_are_repeated(patch: pytest.MonkeyPatch) -> None:
    """The home does not forget a settlement that is copied."""
    patch.setattr(RemoteSettlements, "copied", lambda *_: None)


def settlements_are_reported_before_they_are_copied(patch: pytest.MonkeyPatch) -> None:
    """The leader reports a settlement that only it has."""
    patch.setattr(_Waiting, "is_over", lambda _: True)


def publishes_behind_a_full_queue_are_answered(patch: pytest.MonkeyPatch) -> None:
    """Room answered twice: the leader takes batches that the home sends again."""
    publish = LedQueue.publish

    def patched(self: Any, call: Publish) -> None:
        self._round = call.round
        publish(self, call)

    patch.setattr(LedQueue, "publish", patched)


def whole_batch_is_sent_again_to_a_full_queue(patch: pytest.MonkeyPatch) -> None:
    """The home sends messages again for which the queue has no room, and reports them unstored."""
    room = RemotePublishes.room

    def patched(self: Any, first: int, count: int) -> None:
        batch = self._batches.get(first)
        messages = [] if batch is None else batch.messages
        room(self, first, count)
        if batch is not None and count:
            batch.messages[:] = messages

    patch.setattr(RemotePublishes, "room", patched)


def credit_is_recalled_twice(patch: pytest.MonkeyPatch) -> None:
    """The home gives back the room of recalled credit twice."""
    recalled = RemoteConsumers.recalled

    def patched(self: Any, key: int, credit: int) -> None:
        remote = self._by_key.get(key)
        count = 0 if remote is None else remote.outstanding
        recalled(self, key, credit)
        if remote is not None:
            remote.consumer.channel.free(remote.consumer, count)

    patch.setattr(RemoteConsumers, "recalled", patched)


def credit_is_granted_while_it_is_recalled(patch: pytest.MonkeyPatch) -> None:
    """The leader takes back credit that the home has granted since, or the other way round."""
    grant = RemoteConsumer.grant

    def patched(self: Any) -> bool:
        recalling, self.recalling = self.recalling, False
        raised = grant(self)
        self.recalling = recalling
        return raised

    patch.setattr(RemoteConsumer, "grant", patched)


@pytest.mark.parametrize(
    "plant",
    [
        settlements_are_forgotten_when_taken,
        copied_settlements_are_repeated,
        settlements_are_reported_before_they_are_copied,
        publishes_behind_a_full_queue_are_answered,
        whole_batch_is_sent_again_to_a_full_queue,
        held_positions_are_not_named,
        settlements_are_not_repeated,
        batches_have_new_sequences,
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
        credit_is_recalled_twice,
        credit_is_granted_while_it_is_recalled,
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
