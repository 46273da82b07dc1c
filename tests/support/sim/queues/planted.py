"""Bugs that are planted into the queues of a cluster, each a function of a monkeypatch.

Histories of sessions (`tests/property/queues`) and the story of a simulated cluster find them.
"""

from collections.abc import Callable, Iterable, Sequence

import pytest

from headrace.copies.followed_file import FollowedFile
from headrace.copies.messages import CopyAnswer, CopyQuestion
from headrace.copies.settled_follower import SettledFollower
from headrace.delivery.settled_state import NO_FRAME
from headrace.model.nouns import NO_EPOCH
from headrace.ports.callbacks import Done
from headrace.queue_stores.log.log_writing import LogWriting
from headrace.record.record_parts import NO_PRODUCER
from headrace.remote_queues.calls import CallsOut
from headrace.remote_queues.home import remote_consumers
from headrace.remote_queues.home.publish_batches import PublishBatch, PublishSequence
from headrace.remote_queues.home.remote_settlements import RemoteSettlements
from headrace.remote_queues.leader import leader_session
from headrace.remote_queues.leader.leader_session import LeaderSession
from headrace.remote_queues.messages import Call, Credit, Hold
from headrace.server.cluster.queue_leadership import QueueLeadership

Plant = Callable[[pytest.MonkeyPatch], None]

# Settled positions (ADR 77)


def older_frames_are_accepted(patch: pytest.MonkeyPatch) -> None:
    """Settlement without fence: a follower accepts frames of an earlier leader's epoch."""
    ask, accept = SettledFollower._ask, FollowedFile._accept

    def asked(self: SettledFollower, question: CopyQuestion, done: Done[CopyAnswer]) -> None:
        key = question.topic_id, question.partition.partition
        partition = self._partition_of(question.partition)
        epoch = NO_EPOCH if partition is None else partition.leader_epoch
        known = max(self._known.get(key, NO_EPOCH), epoch)
        ask(self, question._replace(leader_epoch=max(known, question.leader_epoch)), done)

    def accepted(self: FollowedFile, question: CopyQuestion) -> None:
        if question.whole_bytes and question.last.leader_epoch < self.accepted.leader_epoch:
            self.accepted = NO_FRAME
        accept(self, question)

    patch.setattr(SettledFollower, "_ask", asked)
    patch.setattr(FollowedFile, "_accept", accepted)


# The right to lead (ADR 78)


def queues_are_not_paused(patch: pytest.MonkeyPatch) -> None:
    """Two leaders deliver: a queue goes on after the right to lead it has ended."""
    patch.setattr(QueueLeadership, "_pause", lambda self, topic: self._waits.pop(topic, None))


def confirm_before_the_isr(patch: pytest.MonkeyPatch) -> None:
    """The leader confirms what it has appended."""
    append = LogWriting._append

    def planted(self: LogWriting, *args: object, **named: object) -> bool:
        appended = append(self, *args, **named)  # type: ignore[arg-type]
        self._listener.confirmed(self.appended_to)
        return appended

    patch.setattr(LogWriting, "_append", planted)


# Queues on other brokers (ADR 79)


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
    without_recalls(patch)


def without_recalls(patch: pytest.MonkeyPatch) -> None:
    """Recall no credit, which mends what was lost."""
    patch.setattr(remote_consumers, "IDLE_SECONDS", 1e9)


def held_positions_are_not_named(patch: pytest.MonkeyPatch) -> None:
    """An attach without positions: the next leader delivers them again."""
    patch.setitem(leader_session._HANDLERS, Hold, lambda *_: None)


def settlements_are_not_repeated(patch: pytest.MonkeyPatch) -> None:
    """The next leader does not learn of settlements that the former one had not copied."""
    patch.setattr(RemoteSettlements, "repeat", lambda _: None)


def batches_have_new_sequences(patch: pytest.MonkeyPatch) -> None:
    """The log does not recognise a batch that its home sends to the next leader."""
    lost = PublishSequence.lost

    def planted(self: PublishSequence, batches: Iterable[PublishBatch]) -> None:
        lost(self, batches)
        for batch in self.waiting:
            batch.producer = NO_PRODUCER

    patch.setattr(PublishSequence, "lost", planted)


def former_openings_stay(patch: pytest.MonkeyPatch) -> None:
    """A leader that is elected again keeps the consumers of before next to the new ones."""
    patch.setattr(LeaderSession, "_numbers_of", lambda self, name: [])
