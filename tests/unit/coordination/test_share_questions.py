"""Questions about share state: in line by key, joined, asked again, and ended with the broker."""

from typing import Any

import pytest

from headrace.broker.metadata_image import NO_LEADER
from headrace.coordination.share.all_share_states import RETRY_SECONDS, AllShareStates
from headrace.coordination.share.keys import ShareKey
from headrace.coordination.share.questions import (
    Answer,
    Begin,
    Delete,
    Question,
    Read,
    ReadSummary,
    Write,
)
from headrace.coordination.share.state_port import StateSummary
from headrace.delivery.cursor_state import CursorState
from headrace.delivery.record_states import RecordState, StateBatch
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId
from headrace.ports.callbacks import Done
from tests.support.coordination.groups_kit import HandClock

E = ErrorCode
KEY = ShareKey("g", b"i" * 16, 0)
OTHER = ShareKey("g", b"i" * 16, 1)


class Asking:
    """All state is kept by broker 2, which answers when the test says so."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.leader = BrokerId(2)
        self.asked: list[tuple[Question, Done[Answer]]] = []
        self.heard: list[tuple[str, object]] = []
        local: Any = self
        self.states = AllShareStates(local, BrokerId(1), lambda: self, self.clock)

    # What it asks of the states kept here and of other brokers

    @property
    def led(self) -> "Asking":
        return self

    def partition_for(self, key: ShareKey) -> int:
        return 0

    def leader_of(self, index: int, own: BrokerId) -> BrokerId:
        return self.leader

    def ask(self, broker: BrokerId, question: Question, done: Done[Answer]) -> None:
        assert broker == 2
        self.asked.append((question, done))

    # What the tests do

    def hear(self, name: str) -> Done[Any]:
        return lambda answer: self.heard.append((name, answer))

    def write(self, name: str, start: int, *batches: StateBatch, epoch: int = 1) -> None:
        change = CursorState(start, batches, start)
        self.states.write(KEY, 7, epoch, change, self.hear(name))

    def answer(self, answer: Answer = None) -> None:
        """Answer the oldest question that is under way."""
        self.asked.pop(0)[1](answer)

    @property
    def questions(self) -> list[Question]:
        return [question for question, _ in self.asked]


def test_each_verb_is_its_question_and_the_first_error_is_told_once_for_all_keys() -> None:
    asking = Asking()
    asking.states.initialize([(KEY, 5), (OTHER, 6)], 3, asking.hear("begun"))
    assert asking.questions == [Begin(KEY, 3, 5), Begin(OTHER, 3, 6)]
    asking.answer(ApiError(E.FENCED_STATE_EPOCH))
    assert asking.heard == []
    asking.answer()
    asking.states.delete([KEY], asking.hear("deleted"))
    assert asking.questions == [Delete(KEY)]
    asking.answer()
    asking.states.read_summary(KEY, asking.hear("summary"))
    assert asking.questions == [ReadSummary(KEY)]
    summary = StateSummary(3, 1, 5, 0)
    asking.answer(summary)
    assert asking.heard == [
        ("begun", E.FENCED_STATE_EPOCH), ("deleted", None), ("summary", summary),
    ]  # fmt: skip


def test_changes_that_wait_for_one_under_way_are_asked_as_one_and_each_is_told() -> None:
    asking = Asking()
    asking.write("first", 0)
    asking.write("second", 2, StateBatch(4, 5, RecordState.ACKNOWLEDGED, 1))
    asking.write("third", 3, StateBatch(8, 8, RecordState.ARCHIVED, 2))
    assert len(asking.asked) == 1
    asking.answer()
    (joined,) = asking.questions
    assert isinstance(joined, Write)
    assert joined.change == CursorState(
        3,
        (
            StateBatch(4, 5, RecordState.ACKNOWLEDGED, 1),
            StateBatch(8, 8, RecordState.ARCHIVED, 2),
        ),
        3,
    )
    asking.answer(ApiError(E.FENCED_LEADER_EPOCH))
    assert asking.heard == [
        ("first", None), ("second", E.FENCED_LEADER_EPOCH), ("third", E.FENCED_LEADER_EPOCH),
    ]  # fmt: skip


def test_changes_of_two_epochs_and_those_behind_a_read_are_asked_by_themselves() -> None:
    asking = Asking()
    asking.write("first", 0)
    asking.write("second", 1)
    asking.write("third", 2, epoch=2)
    asking.states.read(KEY, 2, asking.hear("read"))
    asking.write("fourth", 3, epoch=2)
    asked = []
    while asking.asked:
        asked.append(asking.questions[0])
        asking.answer()
    assert [type(question) for question in asked] == [Write, Write, Write, Read, Write]
    starts = [question.change.start for question in asked if isinstance(question, Write)]
    assert starts == [0, 1, 2, 3]


def test_who_waits_for_what_was_asked_before_is_called_once_that_is_answered() -> None:
    asking = Asking()
    asking.states.when_settled(KEY, lambda: asking.heard.append(("nothing asked", None)))
    asking.write("change", 0)
    asking.states.when_settled(KEY, lambda: asking.heard.append(("settled", None)))
    asking.states.when_settled(OTHER, lambda: asking.heard.append(("other key", None)))
    assert [name for name, _ in asking.heard] == ["nothing asked", "other key"]
    asking.answer()
    assert [name for name, _ in asking.heard[2:]] == ["change", "settled"]


def test_who_is_answered_may_ask_again_at_once_and_is_behind_who_waits() -> None:
    asking = Asking()
    asking.states.when_settled(KEY, lambda: asking.write("asked in an answer", 1))
    assert len(asking.asked) == 1
    asking.answer()
    assert asking.heard == [("asked in an answer", None)]


@pytest.mark.parametrize("passing", [E.NETWORK_EXCEPTION, E.COORDINATOR_LOAD_IN_PROGRESS])
def test_what_may_pass_is_asked_again_until_the_time_is_up(passing: ErrorCode) -> None:
    asking = Asking()
    asking.write("change", 0)
    began = asking.clock.now
    while not asking.heard:
        asking.answer(ApiError(passing))
        asking.clock.advance(1.0)
        assert asking.clock.now <= began + RETRY_SECONDS + 2
    assert asking.clock.now >= began + RETRY_SECONDS - 2
    away = E.COORDINATOR_NOT_AVAILABLE if passing is E.NETWORK_EXCEPTION else passing
    assert asking.heard == [("change", away)]


def test_state_that_nobody_leads_is_asked_for_once_somebody_does() -> None:
    asking = Asking()
    asking.leader = NO_LEADER
    asking.write("change", 0)
    asking.clock.advance(0.2)
    assert asking.asked == []
    asking.leader = BrokerId(2)
    asking.clock.advance(1.0)
    asking.answer()
    assert asking.heard == [("change", None)]


def test_at_the_end_all_are_told_and_nothing_is_asked_or_heard_any_more() -> None:
    asking = Asking()
    asking.write("under way", 0)
    asking.states.read(KEY, 1, asking.hear("waits"))
    asking.states.close()
    asking.write("later", 1)
    codes = [getattr(answer, "code", answer) for _, answer in asking.heard]
    assert [name for name, _ in asking.heard] == ["under way", "waits", "later"]
    assert codes == [E.NOT_COORDINATOR] * 3
    asking.answer()
    assert len(asking.heard) == 3
    assert (asking.asked, asking.clock.timers) == ([], 0)


def test_at_the_end_nothing_is_asked_again() -> None:
    asking = Asking()
    asking.write("change", 0)
    asking.answer(ApiError(E.NOT_COORDINATOR))
    assert asking.clock.timers == 1
    asking.states.close()
    assert (asking.heard, asking.clock.timers) == ([("change", E.NOT_COORDINATOR)], 0)
