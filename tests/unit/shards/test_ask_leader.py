"""Questions to the broker that leads a partition: which one, again when, until when."""

from headrace.broker.metadata_image import NO_LEADER
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId
from headrace.ports.callbacks import Done
from headrace.shards.ask_leader import LEADER_CHANGES, AskLeader, Retry
from tests.support.coordination.groups_kit import HandClock

HERE, THERE, ELSEWHERE = (BrokerId(number) for number in (1, 2, 3))
LATER = Retry(LEADER_CHANGES, seconds=1.0, backoff_min=0.1, backoff_max=0.3)
LOST = ApiError(ErrorCode.NETWORK_EXCEPTION, "cut")
CLOSED = ApiError(ErrorCode.NOT_COORDINATOR, "this broker stops")


class Asking:
    """Brokers that answer when the test says so."""

    def __init__(self, retry: Retry = LATER) -> None:
        self.clock = HandClock()
        self.leader = THERE
        self.asked: list[tuple[BrokerId, str, Done[str | ApiError]]] = []
        self.told: list[str | ApiError] = []
        self.leaders: AskLeader[str, str] = AskLeader(
            HERE, lambda _: self.leader, self._here, self._there, self.clock, retry
        )

    def _here(self, question: str, done: Done[str | ApiError]) -> None:
        self.asked.append((HERE, question, done))

    def _there(self, broker: BrokerId, question: str, done: Done[str | ApiError]) -> None:
        self.asked.append((broker, question, done))

    def ask(self, question: str = "q") -> None:
        self.leaders.ask(question, self.told.append)

    def answer(self, answer: str | ApiError) -> None:
        self.asked[-1][2](answer)

    @property
    def brokers(self) -> list[BrokerId]:
        return [broker for broker, _, _ in self.asked]


def test_a_question_goes_to_the_leader_of_the_moment_here_or_there() -> None:
    asking = Asking()
    for leader in (HERE, THERE, ELSEWHERE):
        asking.leader = leader
        asking.ask(f"to {leader}")
        asking.answer(f"from {leader}")
    assert asking.brokers == [HERE, THERE, ELSEWHERE]
    assert [question for _, question, _ in asking.asked] == ["to 1", "to 2", "to 3"]
    assert asking.told == ["from 1", "from 2", "from 3"]


def test_an_answer_that_may_pass_is_asked_for_again_of_the_next_leader() -> None:
    for code in LEADER_CHANGES:
        asking = Asking()
        asking.ask()
        asking.answer(ApiError(code))
        asking.leader = HERE
        asking.clock.advance(0.09)
        assert asking.brokers == [THERE]
        asking.clock.advance(0.02)
        assert asking.brokers == [THERE, HERE]
        asking.answer("done")
        assert asking.told == ["done"]


def test_a_final_refusal_is_the_answer() -> None:
    asking = Asking()
    refusal = ApiError(ErrorCode.FENCED_LEADER_EPOCH)
    asking.ask()
    asking.answer(refusal)
    assert asking.told == [refusal]
    asking.clock.advance(5)
    assert asking.brokers == [THERE]


def test_attempts_end_before_the_deadline_with_a_code_that_clients_know() -> None:
    asking = Asking()
    asking.ask()
    at = []
    for _ in range(10):
        at.append(round(asking.clock.monotonic() - Asking().clock.monotonic(), 2))
        asking.answer(LOST)
        if asking.told:
            break
        asking.clock.advance(0.1 if len(at) == 1 else 0.2 if len(at) == 2 else 0.3)
    assert at == [0.0, 0.1, 0.3, 0.6, 0.9]
    (error,) = asking.told
    assert isinstance(error, ApiError)
    assert (error.code, error.message) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "cut")


def test_without_a_retry_the_first_answer_counts() -> None:
    asking = Asking(Retry())
    asking.leader = NO_LEADER
    asking.ask()
    asking.leader = THERE
    asking.ask()
    asking.answer(LOST)
    codes = [error.code for error in asking.told if isinstance(error, ApiError)]
    assert codes == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
    assert asking.brokers == [THERE]


def test_each_question_backs_off_for_itself() -> None:
    asking = Asking()
    asking.ask("a")
    asking.answer(LOST)
    asking.clock.advance(0.05)
    asking.ask("b")
    asking.answer(LOST)
    asking.clock.advance(0.06)
    assert [question for _, question, _ in asking.asked] == ["a", "b", "a"]
    asking.clock.advance(0.05)
    assert [question for _, question, _ in asking.asked] == ["a", "b", "a", "b"]


def test_close_tells_those_in_flight_and_those_that_back_off_once() -> None:
    asking = Asking()
    asking.ask("waits")
    asking.answer(LOST)
    asking.ask("in flight")
    asking.leaders.close(CLOSED)
    assert asking.told == [CLOSED, CLOSED]
    asking.answer("late")
    asking.clock.advance(5)
    assert asking.told == [CLOSED, CLOSED]
    assert len(asking.asked) == 2
