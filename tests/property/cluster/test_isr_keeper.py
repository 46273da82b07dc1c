"""Calls to the controller that are lost, late or refused leave a leader's ISR safe, and then right.

One partition's leader, its keeper and a controller; messages between them are lost and delayed by
chance. The leader's maximal ISR holds all that the controller's has, at every step; once all goes
well, both are the same.
"""

import random
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

import pytest

from headrace.broker.partition import Partition
from headrace.broker.replica.in_sync_replicas import InSyncReplicas, ReplicaFetch, Replicas
from headrace.broker.replica.leader_term import LeaderTerm
from headrace.client.transport.port import ConnectionLost
from headrace.model.errors import ErrorCode
from headrace.model.nouns import BrokerId, LeaderEpoch, TopicPartition
from headrace.record.batch import Record, build, parse_header
from headrace.replication import isr_keeper
from headrace.replication.controller_calls import AskedIsr, IsrAnswer
from headrace.replication.isr_keeper import IsrKeeper
from tests.support.examples import examples
from tests.support.log.log import NOW_MS, World

L, *FOLLOWERS = ALL = tuple(BrokerId(number) for number in (0, 21, 22))
EPOCH = LeaderEpoch(5)
LAG_SECONDS = 10.0
STEPS = 150
SEEDS = examples(150)
SEEDS_MAX = 2000
Answers = Mapping[TopicPartition, IsrAnswer | ErrorCode]


class Violation(AssertionError):
    """The leader has committed what the controller's ISR may lack, or was left behind."""


class _Later:
    def __await__(self) -> Any:
        yield


class Story:
    """What happens by chance, and what both sides hold for true."""

    reminds = True
    """Whether the controller orders again what a leader that asks has missed."""
    writes_unchanged = True
    """Whether it writes an ISR that is so already."""
    late = 0.3
    """How often a request is given up, and may yet arrive."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.world = World()
        self.clock = self.world.clock
        self.partition = Partition(self.world.log(), flusher=self.world.directory.flusher)
        self.in_sync, self.version = ALL, 1
        """As the controller has written it."""
        self.ineligible: set[BrokerId] = set()
        self.orders: list[Replicas] = []
        """On their way to the leader, which all of them reach."""
        self.under_way: list[AskedIsr] = []
        """Requests that nobody waits for any more, and may yet arrive."""
        self.call: Coroutine[Any, Any, None] | None = None
        self.asked: AskedIsr | None = None
        self.answer: Answers | None = None
        self.lead()
        self.keeper = IsrKeeper(
            lambda: [self.partition], self, self.clock, self.spawn, lambda: LAG_SECONDS
        )
        self.keeper.start()

    @property
    def term(self) -> LeaderTerm:
        term = self.partition.role.term
        assert term is not None
        return term

    def told(self) -> Replicas:
        return Replicas(L, ALL, self.in_sync, self.version)

    def lead(self) -> None:
        self.partition.role.lead(EPOCH, self.told(), now=self.clock.monotonic())

    # --- between them ---------------------------------------------------------------------------

    async def alter_partitions(self, asked: Sequence[AskedIsr]) -> Answers:
        (self.asked,) = asked
        await _Later()
        if self.answer is None:
            raise ConnectionLost("gone")
        return self.answer

    def spawn(self, call: Coroutine[Any, Any, None]) -> None:
        call.send(None)
        assert self.call is None
        self.call = call

    def decide(self, asked: AskedIsr) -> IsrAnswer | ErrorCode:
        """Do as the controller does."""
        if asked.partition_epoch < self.version:
            if (asked.isr, asked.partition_epoch) == (self.in_sync, self.version - 1):
                return self.state()
            if self.reminds:
                self.orders.append(self.told())
            return ErrorCode.INVALID_UPDATE_VERSION
        if set(asked.isr) & self.ineligible - set(self.in_sync):
            return ErrorCode.INELIGIBLE_REPLICA
        if self.writes_unchanged or asked.isr != self.in_sync:
            self.in_sync, self.version = asked.isr, self.version + 1
        return self.state()

    def state(self) -> IsrAnswer:
        return IsrAnswer(L, EPOCH, self.in_sync, self.version)

    # --- what happens ---------------------------------------------------------------------------

    def step(self) -> None:
        (action,) = self.chance.choices(
            (self.fetch, self.append, self.wait, self.end_call, self.arrive, self.leave,
             self.order, self.change_mind),
            (30, 15, 25, 30, 10, 2, 10, 8),
        )  # fmt: skip
        action()
        self.judge()

    def fetch(self) -> None:
        replica = self.chance.choice(FOLLOWERS)
        if replica not in self.ineligible or self.chance.random() < 0.3:
            self.fetch_all(replica)

    def fetch_all(self, replica: BrokerId) -> None:
        end = self.partition.log.end_offset
        if self.term.note_fetch(ReplicaFetch(replica, end, end, 70), self.clock.monotonic()):
            self.keeper.ask(self.partition)

    def append(self) -> None:
        view = memoryview(bytearray(build([Record(0, NOW_MS, None, b"v", ())])))
        self.partition.append(view, parse_header(view), now_ms=NOW_MS)
        self.world.settle()

    def wait(self) -> None:
        self.clock.advance(self.chance.choice((0.01, 1.0, 6.0)))

    def end_call(self) -> None:
        """The call under way is answered; or it is given up, written or not, perhaps later."""
        if self.call is None or self.asked is None:
            return
        self.answer = None
        if self.chance.random() >= self.late:
            found = self.decide(self.asked)
            if self.chance.random() < 0.7:
                self.answer = {self.partition.topic_partition: found}
        else:
            self.under_way.append(self.asked)
        self.resume()

    def resume(self) -> None:
        call, self.call = self.call, None
        if call is not None:
            with pytest.raises(StopIteration):
                call.send(None)

    def arrive(self) -> None:
        """A request of long ago is carried out; or it is lost for good."""
        if self.under_way:
            asked = self.under_way.pop(self.chance.randrange(len(self.under_way)))
            if self.chance.random() < 0.7:
                self.decide(asked)

    def leave(self) -> None:
        """The controller takes a replica out of the ISR by itself, and orders so."""
        gone = self.chance.choice(FOLLOWERS)
        self.in_sync = tuple(member for member in self.in_sync if member != gone)
        self.version += 1
        self.orders.append(self.told())

    def order(self) -> None:
        if self.orders:
            replicas = self.orders.pop(self.chance.randrange(len(self.orders)))
            self.partition.role.lead(EPOCH, replicas, now=self.clock.monotonic())

    def change_mind(self) -> None:
        self.ineligible ^= {self.chance.choice(FOLLOWERS)}

    # --- what must hold -------------------------------------------------------------------------

    def judge(self) -> None:
        term = self.term
        if term.partition_epoch > self.version:
            raise Violation(f"{term.partition_epoch} was never written")
        known = term.partition_epoch == self.version
        if known and not set(self.in_sync) <= term.maximal:
            raise Violation(f"{self.in_sync} are in sync, and {set(term.maximal)} waited for")
        if known and term.in_sync != set(self.in_sync):
            raise Violation(f"{self.in_sync} are in sync, not {set(term.in_sync)}")
        if not known and not self.orders and not set(self.in_sync) <= term.maximal:
            # With an order on its way the controller has taken members out, never in.
            raise Violation(f"{self.in_sync} are in sync, unknown to who waits for {term.maximal}")

    def end_well(self) -> None:
        """Nothing is lost any more: all followers fetch, and are in sync at both ends."""
        self.under_way.clear()
        self.ineligible.clear()
        for _ in range(60):
            for replica in FOLLOWERS:
                self.fetch_all(replica)
            while self.orders:
                replicas = self.orders.pop(0)
                self.partition.role.lead(EPOCH, replicas, now=self.clock.monotonic())
            if self.call is not None and self.asked is not None:
                self.answer = {self.partition.topic_partition: self.decide(self.asked)}
                self.resume()
            self.clock.advance(1.0)
            self.judge()
        if set(self.in_sync) != set(ALL) or self.term.in_sync != set(ALL) or self.term.pending:
            raise Violation(f"{self.in_sync} are in sync, the leader says {set(self.term.in_sync)}")


def play(seed: int, kind: type[Story] = Story) -> Story:
    story = kind(seed)
    try:
        for _ in range(STEPS):
            story.step()
        story.end_well()
    except Violation as violation:
        raise Violation(f"seed {seed}: {violation}") from None
    finally:
        if story.call is not None:
            story.call.close()
        story.world.close()
    return story


def test_the_maximal_isr_holds_the_controllers_and_both_are_the_same_in_the_end() -> None:
    stories = [play(seed) for seed in range(SEEDS)]
    assert sum(story.keeper.shrinks for story in stories) > SEEDS / 10
    assert sum(story.keeper.expands for story in stories) > 2 * SEEDS


def assert_found(kind: type[Story] = Story) -> None:
    for seed in range(SEEDS_MAX):
        try:
            play(seed, kind)
        except Violation:
            return
    pytest.fail("no history shows it")


def test_a_refusal_believed_though_an_answer_was_lost_before_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(LeaderTerm, "isr_answer_lost", lambda term: None)
    assert_found()


def test_a_lost_answer_taken_for_a_refusal_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LeaderTerm, "isr_answer_lost", lambda term: term.isr_refused())
    assert_found()


def test_an_isr_that_counts_before_it_is_written_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = InSyncReplicas._ask_for

    def planted(self: InSyncReplicas, wanted: frozenset[BrokerId]) -> Any:
        change = plain(self, wanted)
        self.maximal = wanted
        return change

    monkeypatch.setattr(InSyncReplicas, "_ask_for", planted)
    assert_found()


def test_a_controller_that_does_not_write_an_unchanged_isr_is_found() -> None:
    class Planted(Story):
        writes_unchanged = False

    assert_found(Planted)


def test_a_leader_that_is_not_told_again_what_it_missed_is_found() -> None:
    class Planted(Story):
        reminds = False
        late = 0.6

    assert_found(Planted)


def test_changes_that_are_not_asked_for_again_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isr_keeper, "RETRY_SECONDS_MAX", 1e9)
    monkeypatch.setattr(isr_keeper, "RETRY_SECONDS", 1e9)
    assert_found()
