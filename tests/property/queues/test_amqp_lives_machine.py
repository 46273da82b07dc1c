"""Durable queues against a model: whatever is done to them, through kills and power cuts.

Publish, get, consume, ack, nack, requeue, purge, expiry, limits, priorities, delivery limits and
dead letters, with kills, power cuts and clean stops between any two steps. Each two of the
features meet in some case (`PAIRWISE`); which actions take part, a swarm, is drawn anew for
each example.

The model knows what is promised of each message, and not which of several allowed ends it takes:
the order of ends within a life is `test_amqp_queue_machine`'s to judge. `make amqp-model` plays
more and longer examples.
"""

import os
from collections.abc import Callable
from itertools import combinations, product
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import HealthCheck, Phase
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from headrace.queue_stores.queue_settings import Overflow
from headrace.testing.disk_crash import crash_states
from tests.support.amqp.cases import (
    CLOCK_SECONDS,
    DELIVERY_LIMIT,
    FEATURES,
    LENGTH_BYTES_MAX,
    PAIRWISE,
    Case,
    Known,
    Left,
    arguments_of,
    left_in,
    not_kept,
    pairs_of,
)
from tests.support.amqp.deliveries import Delivery
from tests.support.queues.lives import BrokerLife

if TYPE_CHECKING:
    from headrace.queues.port import Consumer

LONG = bool(os.environ.get("HEADRACE_LONG"))
EXAMPLES = 400 if LONG else 25
STEPS = 60 if LONG else 35
DURABLE_SECONDS = 0.2
"""After so long all that was said is durable, and was done."""


ACTIONS = (
    "get", "ack", "ack multiple", "requeue", "reject", "close", "purge", "turn", "wait", "later",
    "retain", "kill", "cut", "stop",
)  # fmt: skip


Rule = Callable[..., None]


def does(name: str) -> Callable[[Rule], Rule]:
    """Let a rule be played only where its action takes part."""
    takes_part: Callable[[Rule], Rule] = precondition(lambda self: name in self.swarm)
    return takes_part


class LivesMachine(RuleBasedStateMachine):
    """One queue `q` in many lives, and `dead`, where its dead letters go."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.case = case
        self.life = BrokerLife({"dead": {}, "q": arguments_of(case)})
        self.settings = self.life.queue().settings
        self.outlives = case["kind"] == "quorum"
        self.known: dict[int, Known] = {}
        self.held: dict[int, Known] = {}
        self.full = False
        """It has been full."""
        self.kills = 0
        self.swarm: frozenset[str] = frozenset()

    @initialize(left_out=st.frozensets(st.sampled_from(ACTIONS), max_size=8))
    def begin(self, left_out: frozenset[str]) -> None:
        self.swarm = frozenset(ACTIONS) - left_out
        self.join()

    def join(self) -> None:
        """Have the consumer come (again)."""
        self.held = {}
        self.consumer: Consumer | None = None
        if self.case["taken by"] != "get":
            no_ack = self.case["taken by"] == "consumer without ack"
            self.consumer = self.life.consume(prefetch=2, no_ack=no_ack)

    # What comes

    def note_given(self) -> None:
        given, self.life.given = self.life.given, []
        for delivery, at in given:
            self.note(delivery, at)

    def note(self, delivery: Delivery, at: float) -> None:
        consumer, tag, message, redelivered, returns = delivery
        known = self.known[int(message.body.split(b".")[0])]
        assert not known.gone, f"what had left the queue for good has come back: {known}"
        assert redelivered or not known.given, "it was given to somebody before"
        assert known.returns_durable <= returns <= known.returns or not self.outlives
        alive = known.expires_at is None or at <= known.expires_at + CLOCK_SECONDS
        assert alive, f"it was of age at {at}: {known}"
        known.given = True
        if consumer.no_ack:
            known.end()
        else:
            self.held[tag] = known

    # What is done

    @rule(size=st.integers(3, 8), priority=st.integers(0, 3), times=st.integers(1, 4),
          life_ms=st.sampled_from([None, 0, 300, 2000]), persistent=st.booleans())  # fmt: skip
    def publish(
        self, size: int, priority: int, times: int, life_ms: int | None, persistent: bool
    ) -> None:
        for _ in range(times):
            number = len(self.known)
            lives = [self.settings.ttl_ms] if self.settings.ttl_ms is not None else []
            if self.case["ttl"] == "message" and life_ms is not None:
                lives.append(life_ms)
            known = self.known[number] = Known(
                number,
                min(priority, 2) if self.case["kind"] == "priorities" else 0,
                persistent or self.case["persistence"] == "all",
                self.life.now + min(lives) / 1000 if lives else None,
                self.life.now,
            )
            self.publish_one(known, f"{number}.".ljust(size, "x"), priority, lives)

    def publish_one(self, known: Known, body: str, priority: int, lives: list[int]) -> None:
        queue = self.life.queue()
        before = queue.ready, queue.ready_bytes
        self.full = self.full or self.exceeds(before[0] + 1, before[1] + len(body))

        def confirmed(kept: bool) -> None:
            assert kept
            known.confirmed, known.stored = True, not known.done

        taken = self.life.publish(
            body,
            confirmed,
            priority=priority,
            expiration_ms=min(lives) if lives and self.case["ttl"] == "message" else None,
            persistent=known.persistent,
        )
        self.note_given()
        if self.settings.overflow is Overflow.DROP_HEAD:
            assert taken
        if not taken:
            assert self.exceeds(before[0] + 1, before[1] + len(body)), "there was room"
            known.end()
        elif self.settings.overflow is not Overflow.DROP_HEAD:
            assert not self.exceeds(queue.ready, queue.ready_bytes), "it takes more than it may"

    def exceeds(self, count: int, size: int) -> bool:
        longest, largest = self.settings.length_max, self.settings.length_bytes_max
        return (longest is not None and count > longest) or (largest is not None and size > largest)

    @does("get")
    @rule(times=st.integers(1, 3))
    def get(self, times: int) -> None:
        for _ in range(times):
            delivery = self.life.get()
            self.note_given()
            if delivery is not None:
                self.note(delivery, self.life.now)

    def settled(self, tag: int, *, multiple: bool) -> list[Known]:
        """Return what is settled by that, which the channel holds no more."""
        tags = [each for each in self.held if each == tag or (multiple and each < tag)]
        return [self.held.pop(each) for each in tags]

    @does("ack")
    @precondition(lambda self: self.held)
    @rule(data=st.data(), multiple=st.booleans())
    def ack(self, data: st.DataObject, multiple: bool) -> None:
        tag = data.draw(st.sampled_from(sorted(self.held)))
        multiple = multiple and "ack multiple" in self.swarm
        self.life.channel.ack(tag, multiple=multiple)
        for known in self.settled(tag, multiple=multiple):
            known.end()
        self.end_pass()

    @does("requeue")
    @precondition(lambda self: self.held)
    @rule(data=st.data(), multiple=st.booleans())
    def requeue(self, data: st.DataObject, multiple: bool) -> None:
        tag = data.draw(st.sampled_from(sorted(self.held)))
        returned = self.settled(tag, multiple=multiple)
        self.note_returned(returned)
        self.life.channel.nack(tag, multiple=multiple, requeue=True)
        self.end_pass()

    def note_returned(self, returned: list[Known]) -> None:
        queue = self.life.queue()
        for known in returned:
            known.returns += 1
            known.tried_too_often = known.tried_too_often or known.returns > DELIVERY_LIMIT
        self.full = self.full or self.exceeds(queue.ready + len(returned), queue.ready_bytes + 99)

    @does("reject")
    @precondition(lambda self: self.held)
    @rule(data=st.data(), multiple=st.booleans())
    def reject(self, data: st.DataObject, multiple: bool) -> None:
        tag = data.draw(st.sampled_from(sorted(self.held)))
        for known in self.settled(tag, multiple=multiple):
            known.rejected = known.done = True
        self.life.channel.nack(tag, multiple=multiple, requeue=False)
        self.life.host.touched((self.life.queue(),))
        self.end_pass()

    @does("purge")
    @rule()
    def purge(self) -> None:
        held = {known.number for known in self.held.values()}
        self.life.host.purge(self.life.queue(), lambda _: None)
        for known in self.known.values():
            if known.number not in held and not known.done:
                known.end()
        self.end_pass()

    def end_pass(self) -> None:
        self.life.end_pass()
        self.note_given()

    # Time

    @does("turn")
    @rule(steps=st.integers(1, 3))
    def turn(self, steps: int) -> None:
        self.life.some_turns(steps)
        self.note_given()

    @does("later")
    @rule(seconds=st.sampled_from([0.02, 0.3, 1.0, 2.5]))
    def later(self, seconds: float) -> None:
        self.life.wait(seconds)
        self.note_given()

    @does("wait")
    @rule()
    def wait(self) -> None:
        """What was said so far is done, and durable."""
        said = [known for known in self.known.values() if known.done]
        counted = [(known, known.returns) for known in self.known.values()]
        self.life.wait(DURABLE_SECONDS)
        self.note_given()
        for known in said:
            known.gone = True
        for known, returns in counted:
            known.returns_durable = returns

    @does("retain")
    @rule()
    def retain(self) -> None:
        self.life.retain()
        self.note_given()
        assert not_kept(self.life, self.known.values()) == []

    # Ends

    @does("kill")
    @rule()
    def kill(self) -> None:
        self.begin_again(self.life.killed())

    @does("cut")
    @rule(seed=st.integers(0, 1 << 30), which=st.integers(0, 3))
    def cut(self, seed: int, which: int) -> None:
        disk = self.life.world.disk
        states = list(crash_states(disk, len(disk.ops), seed, 3))
        self.begin_again(self.life.after(states[which % len(states)]))

    @does("stop")
    @rule()
    def stop(self) -> None:
        self.note_returned(list(self.held.values()))
        counted = [(known, known.returns) for known in self.known.values()]
        life = self.life.stopped()
        self.note_given()
        for known, returns in counted:
            known.returns_durable = returns
        self.begin_again(life)

    def begin_again(self, life: BrokerLife) -> None:
        """Look at a copy of all that is left, and go on with it."""
        self.kills += 1
        self.full = self.full or self.exceeds(len(self.known), LENGTH_BYTES_MAX + 1)
        self.judge(life.killed())
        self.life = life
        if not self.outlives:
            for known in self.known.values():
                known.gone = known.gone or not known.persistent
        self.join()
        self.note_given()

    def judge(self, copy: BrokerLife) -> None:
        """Hold what two queues have against what is promised of each message."""
        assert not_kept(copy, self.known.values()) == []
        ready = copy.queue().ready, copy.queue().ready_bytes
        queue, dead = left_in(copy, "q"), left_in(copy, "dead")
        self.judge_queue(queue, ready)
        self.judge_dead(dead, copy.now)
        for left in queue:
            # What was not durable of it never was.
            known = self.known[left.number]
            known.done, known.wanted, known.returns = False, True, left.returns
        there = {left.number for left in [*queue, *dead]}
        for known in self.known.values():
            kept = known.confirmed and (known.persistent or self.outlives) and known.wanted
            died = known.may_have_died(copy.now, full=self.full)
            if kept and (self.settings.dead_letters or not died):
                # A dead letter that is not persistent is not kept by a classic queue.
                assert known.number in there or not known.persistent, "a message is lost"

    def judge_queue(self, queue: list[Left], ready: tuple[int, int]) -> None:
        numbers = [left.number for left in queue]
        assert len(set(numbers)) == len(numbers), "a message is there twice"
        for left in queue:
            known = self.known[left.number]
            assert not known.gone, f"what had left the queue for good has come back: {known}"
            assert known.persistent or self.outlives, "what is not persistent has come back"
            assert left.redelivered or not known.given, "it was given to somebody before"
            if self.outlives:
                assert known.returns_durable <= left.returns <= known.returns, (left, known)
        order = [(-self.known[number].priority, number) for number in numbers]
        assert order == sorted(order), "the order is lost"
        if self.settings.ttl_ms is None and self.case["ttl"] == "none" and not self.full:
            assert len(queue) == ready[0], "the count is wrong"

    def judge_dead(self, dead: list[Left], now: float) -> None:
        copies: dict[int, int] = {}
        for left in dead:
            known = self.known[left.number]
            assert self.settings.dead_letters
            reasons = known.may_have_died(now, full=self.full)
            assert left.died_of in reasons, (
                f"it cannot have died so, but of {reasons}: {left}, {known}, {now}"
            )
            copies[left.number] = copies.get(left.number, 0) + 1
            # What is looked at is a copy, which one kill more has made.
            assert copies[left.number] <= 2 + self.kills, "it is doubled without a kill"

    # Always

    @invariant()
    def counts_are_possible(self) -> None:
        queue = self.life.queue()
        assert queue.ready >= 0
        assert queue.ready_bytes >= 0
        assert queue.unacked == len(self.held) == len(self.life.channel.held)
        if self.consumer is not None and not self.consumer.no_ack:
            assert self.consumer.unacked <= 2

    def teardown(self) -> None:
        self.begin_again(self.life.killed())
        super().teardown()


@pytest.mark.parametrize("case", PAIRWISE, ids=lambda case: "-".join(case.values()))
def test_what_is_promised_of_each_message_holds_through_all_lives(case: Case) -> None:
    run_state_machine_as_test(
        cast("type[LivesMachine]", lambda: LivesMachine(case)),
        settings=hypothesis_settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            derandomize=not LONG,
            deadline=None,
            phases=[Phase.reuse, Phase.generate],  # to shrink a history takes minutes
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_each_two_values_of_two_features_meet_in_some_case() -> None:
    met = {pair for case in PAIRWISE for pair in pairs_of(case)}
    for (one, ones), (other, others) in combinations(FEATURES.items(), 2):
        for pair in product(ones, others):
            assert ((one, pair[0]), (other, pair[1])) in met
    assert len(PAIRWISE) < 20
