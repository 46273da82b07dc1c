"""Retries, delays, transactions and offsets of a whole broker in drawn histories, on a model.

The broker is simulated, with its listener: requests are drawn, and some have no answer when it is
killed, loses its power or its clock jumps. At the end each acknowledged message is in its topic, at
most once more for each end of the broker, and none before its time; nothing that was rolled back or
recalled is seen; offsets are those last answered, or those of an operator's reset.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from headrace.wire.rocketmq.codes import RequestCode, ResponseCode
from tests.support.examples import examples
from tests.support.rocketmq.simulated import (
    COMMIT,
    ROLLBACK,
    Remoting,
    SimRemotingClient,
    place_in,
    remoting,
)
from tests.support.sim.cluster import until

SOURCE, DELAYED, DECIDED, READ = "source", "delayed", "decided", "read"
GROUP = "CG"
RETRIED, DEAD = f"%RETRY%{GROUP}", f"%DLQ%{GROUP}"
GIVEN_UP = "TRANS_CHECK_MAX_TIME_TOPIC"
SETTINGS = {
    "rocketmq.recall.message.enable": "true",
    "rocketmq.transaction.timeout.ms": "3000",
    "rocketmq.transaction.check.interval.ms": "5000",
}
CHECKS_MAX = 15
ENDS_MAX = 4
READ_MESSAGES = 10


@dataclass
class Sent:
    """A message that a topic must or may have."""

    topic: str
    due_ms: int = 0
    """The wall clock before which it must not be stored."""
    answered: bool = False
    ends: int = 0
    """Ends of the broker since it was sent: each may deliver it once more."""


@dataclass
class Half:
    """An undecided message, once it is answered."""

    place: int
    decision: int = 0
    """The decision that was sent last; 0: none."""
    decided: int = 0
    """The decision that was answered with success; 0: none."""
    dead: bool = False
    """Whether a rollback, or that it was given up, was answered before any commit was sent."""


@dataclass
class Model:
    """The state of the broker, as far as its clients know it."""

    sent: dict[str, Sent] = field(default_factory=dict)
    handles: dict[str, str] = field(default_factory=dict)
    recalled: set[str] = field(default_factory=set)
    maybe_recalled: set[str] = field(default_factory=set)
    halves: dict[str, Half] = field(default_factory=dict)
    offsets: set[int | None] = field(default_factory=lambda: {None})
    """The offsets that may be stored: that last answered, and those whose answers are missing."""
    resets: set[int | None] = field(default_factory=lambda: {None})
    """The resets that may be pending; None: that none is."""
    ends: int = 0

    def end(self) -> None:
        """Note an end of the broker."""
        self.ends += 1
        for each in self.sent.values():
            each.ends += 1


class Play:
    """A history on a simulated broker."""

    def __init__(self, room: Remoting) -> None:
        self.room = room
        self.model = Model()
        self.client = SimRemotingClient()
        self.number = 0

    def body(self) -> str:
        """Return a new body."""
        self.number += 1
        return str(self.number)

    async def connect(self) -> None:
        """Connect, as the producer of a group."""
        self.client = await self.room.client()
        await self.client.produces("p", "PG")
        await self.client.committed(GROUP, READ)

    # Steps

    async def send_delayed(self, value: int) -> None:
        """Send a message with a delay of some ms."""
        body = self.body()
        self.model.sent[body] = sent = Sent(DELAYED, self.room.now_ms + value)
        properties = f"UNIQ_KEY\x01{body}\x02TIMER_DELAY_MS\x01{value}\x02"
        answer = await self.client.send(DELAYED, body.encode(), i=properties)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        sent.answered = True
        handle = (answer.fields or {}).get("recallHandle")
        if handle:
            self.model.handles[body] = handle

    async def recall(self, value: int) -> None:
        """Recall a message."""
        handles = self.model.handles
        if not handles:
            return
        body = list(handles)[value % len(handles)]
        named = {"producerGroup": "PG", "topic": DELAYED, "recallHandle": handles.pop(body)}
        self.model.maybe_recalled.add(body)
        answer = await self.client.call(RequestCode.RECALL_MESSAGE, named)
        self.model.maybe_recalled.discard(body)
        if answer.code == ResponseCode.SUCCESS:
            self.model.recalled.add(body)

    async def send_back(self, value: int) -> None:
        """Send a message back, to be retried or as a dead letter."""
        body = self.body()
        source = await self.client.send(SOURCE, body.encode(), i=f"UNIQ_KEY\x01{body}\x02")
        dead = value % 2
        due_ms = 0 if dead else self.room.now_ms + 1000
        self.model.sent[body] = sent = Sent(DEAD if dead else RETRIED, due_ms)
        answer = await self.client.send_back(place_in(source), GROUP, -1 if dead else 1)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        sent.answered = True

    async def send_half(self, value: int) -> None:
        """Send an undecided message."""
        body = self.body()
        properties = f"UNIQ_KEY\x01{body}\x02TRAN_MSG\x01true\x02PGROUP\x01PG\x02"
        self.model.sent[body] = sent = Sent(DECIDED)
        answer = await self.client.send(DECIDED, body.encode(), i=properties, f=4)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        sent.answered = True
        self.model.halves[body] = Half(place_in(answer))

    async def decide(self, value: int, decision: int) -> None:
        """Decide on a message, perhaps not for the first time."""
        if not self.model.halves:
            return
        body = list(self.model.halves)[value % len(self.model.halves)]
        half = self.model.halves[body]
        before, half.decision = half.decision, decision
        answer = await self.client.end(half.place, decision)
        if answer.code == ResponseCode.SUCCESS:
            assert not half.decided, "decided once"
            half.decided = decision
            half.dead = decision == ROLLBACK and before != COMMIT
        elif not before:
            half.dead = True  # it was given up

    async def commit_offset(self, value: int) -> None:
        """Store an offset."""
        model, offset = self.model, value % READ_MESSAGES
        pending: set[int | None] = model.resets - {None}
        model.offsets |= {offset}
        answer = await self.client.commit(GROUP, READ, offset)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        if answer.remark == "Offset has been previously reset":
            assert pending, "no reset is pending"
            model.resets, model.offsets = {*pending}, {*pending}
        else:
            assert None in model.resets, "the reset is ignored"
            model.resets, model.offsets = {None}, {offset}

    async def reset(self, value: int) -> None:
        """Reset the offset."""
        model, offset = self.model, value % READ_MESSAGES
        model.offsets |= {offset}
        model.resets |= {offset}
        answer = await self.client.reset(GROUP, READ, offset)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        model.offsets, model.resets = {offset}, {offset}

    async def pull(self, value: int) -> None:
        """Pull, and learn of a reset."""
        model = self.model
        before = set(model.resets)
        model.resets |= {None}
        answer = await self.client.pull(READ, value % READ_MESSAGES, consumerGroup=GROUP)
        if answer.remark == "OFFSET_RESET":
            offset = int((answer.fields or {})["nextBeginOffset"])
            assert offset in before
            model.offsets = {offset}
        else:
            assert None in before, "the reset was not told"
        # A kill before it is written that the client has heard of it tells it a second time.
        model.resets = {None, *(before - {None} if answer.remark == "OFFSET_RESET" else ())}

    async def check_offset(self) -> None:
        """Check that the stored offset is one that may be."""
        found = await self.client.committed(GROUP, READ)
        assert found in self.model.offsets, (found, self.model.offsets, self.model.resets)

    async def end(self, how: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """End the broker and start it again."""
        if self.model.ends >= ENDS_MAX:
            return
        self.model.end()
        await how()
        await self.connect()
        await self.check_offset()

    async def hurry(self, value: int) -> None:
        """Kill the broker under requests, at some moment of their way."""
        if self.model.ends >= ENDS_MAX:
            return
        works = [
            self.send_delayed(value), self.send_back(value), self.send_half(value),
            self.decide(value, COMMIT if value % 2 else ROLLBACK),
            (self.reset if value % 3 else self.commit_offset)(value), self.recall(value),
        ]  # fmt: skip
        tasks = [asyncio.get_running_loop().create_task(work) for work in works]
        await asyncio.sleep(value / 2000)
        self.model.end()
        await self.room.kill()
        self.client.close()
        for task in tasks:
            with suppress(ConnectionError):
                await task
        await self.connect()
        await self.check_offset()

    async def step(self, kind: str, value: int) -> None:
        """Do a step."""
        match kind:
            case "delay":
                await self.send_delayed(value * 300)
            case "commit":
                await self.decide(value, COMMIT)
            case "roll back":
                await self.decide(value, ROLLBACK)
            case "pass":
                await asyncio.sleep(value * value / 50)
            case "jump":
                await self.delivered()
                self.room.jump((value - 30) * 1000)
            case "kill":
                await self.end(self.room.kill)
            case "cut":
                await self.end(self.room.cut_power)
            case _:
                steps: dict[str, Callable[[int], Coroutine[Any, Any, None]]] = {
                    "recall": self.recall, "send back": self.send_back, "half": self.send_half,
                    "offset": self.commit_offset, "reset": self.reset, "pull": self.pull,
                    "hurry": self.hurry,
                }  # fmt: skip
                await steps[kind](value)

    async def delivered(self) -> None:
        """Wait until no delivery is under way: its message may be early by a jump back alone."""
        delays = self.room.served.held.delays.value
        if delays is not None:
            await until(lambda: not delays._flying)

    # The end

    async def finish(self) -> None:
        """Wait until nothing is due, answer the questions, and check all topics."""
        left_ms = max((each.due_ms for each in self.model.sent.values()), default=0)
        await asyncio.sleep(max(left_ms - self.room.now_ms, 0) / 1000 + 5)
        await self.check_offset()
        for half in self.model.halves.values():
            if not half.decision:
                await self.client.end(half.place, COMMIT)
                half.decision = COMMIT
        for topic in (SOURCE, DELAYED, RETRIED, DEAD, DECIDED):
            await self.check(topic)
        held = self.room.served.held
        assert held.delays.value is None or len(held.delays.value) == 0

    async def check(self, topic: str) -> None:
        """Check the messages of a topic."""
        found = await self.client.pulled(topic)
        counted = Counter(message.body.decode() for message in found)
        for message in found:
            body = message.body.decode()
            if topic != SOURCE and body != "first":
                sent = self.model.sent[body]
                assert sent.topic == topic
                assert message.stored_at_ms >= sent.due_ms, f"{body} is early"
        for body, sent in self.model.sent.items():
            if sent.topic == topic:
                self._check_count(body, sent, counted[body])

    def _check_count(self, body: str, sent: Sent, count: int) -> None:
        half = self.model.halves.get(body)
        where = (body, sent, half, count)
        if sent.topic == DECIDED:
            assert half is not None or count == 0, where
            least = half is not None and half.decided == COMMIT
            most = half is not None and not half.dead
        else:
            most = body not in self.model.recalled
            least = sent.answered and most and body not in self.model.maybe_recalled
        extra = 0 if sent.topic == DEAD else sent.ends
        assert least <= count <= (1 + extra if most else 0), where


KINDS = (
    "delay", "recall", "send back", "half", "commit", "roll back", "offset", "reset", "pull",
    "pass", "jump", "kill", "cut", "hurry",
)  # fmt: skip
STEPS = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 60)), max_size=30)


@hypothesis_settings(max_examples=examples(50), deadline=None)
@given(STEPS, st.integers(1, 1000))
def test_a_broker_delivers_retries_delays_and_transactions_and_keeps_offsets(
    steps: list[tuple[str, int]], seed: int
) -> None:
    async def story(room: Remoting) -> None:
        play = Play(room)
        await play.connect()
        for topic in (SOURCE, DELAYED, DECIDED):
            await play.client.send(topic, b"first")
        for number in range(READ_MESSAGES):
            await play.client.send(READ, b"%d" % number)
        for kind, value in steps:
            await play.step(kind, value)
        await play.finish()

    remoting(story, SETTINGS, seed)
