"""Delays and undecided messages on a simulated broker: a process, and the next one after a kill."""

import asyncio
from collections.abc import Awaitable, Callable

from headrace.held.delays import Delays
from headrace.held.held_log import HeldLog, HeldState
from headrace.held.topic_targets import HeldTopicMessage, StoredTopicMessage
from headrace.model.errors import ApiError
from headrace.model.nouns import TopicPartition
from headrace.ports.callbacks import Done, ignore_result
from headrace.subscriptions.half_messages import AskingRules, HalfMessages
from headrace.testing.disk import SimDisk
from tests.support.held.room import HeldRoom, Targets, message

Load = Callable[[HeldLog[TopicPartition], Callable[[int, int], None]], Awaitable[HeldState]]
FIRST_MS, INTERVAL_MS, ASKS_MAX = 600, 1000, 3


class DelayRoom(HeldRoom):
    """Delays on a simulated broker."""

    def __init__(
        self,
        before: HeldRoom | None = None,
        targets: Targets | None = None,
        left: SimDisk | None = None,
    ) -> None:
        """`left`: the disk that the process before has left, if not that of a kill."""
        if before is None:
            super().__init__()
        else:
            super().__init__(before.restarted(left), before.epoch + 1)
        self.targets = targets or Targets()
        self.delays = Delays(self.log, self.targets.deliver, self.clock)
        self.answered: list[int | ApiError] = []
        self.run(self.delays.load())

    def add(self, *bodies: str, after_ms: int, target: TopicPartition | None = None) -> None:
        """Store messages that are due later; they are on disk."""
        for body in bodies:
            held = message(body) if target is None else message(body, target)
            self.delays.add(held, self.now_ms + after_ms, self.answered.append)
        self.world.settle()

    def again(self) -> "DelayRoom":
        """Kill the broker and start it again; its topics stay."""
        self.delays.close()
        return DelayRoom(self, self.targets)

    @property
    def stored(self) -> list[str]:
        """The bodies in their topics."""
        return self.targets.stored


def recall(room: DelayRoom, body: str, due_ms: int) -> bool:
    """Recall a message."""

    def wanted(held: HeldTopicMessage) -> bool:
        return held.body == body.encode()

    return room.run(room.delays.recall(due_ms, wanted))


class HalfRoom(HeldRoom):
    """Undecided messages on a simulated broker, with a producer that can be away."""

    def __init__(
        self,
        before: "HalfRoom | None" = None,
        left: SimDisk | None = None,
        age_ms_max: int = -1,
    ) -> None:
        """`left`: the disk that the process before has left, if not that of a kill."""
        if before is None:
            super().__init__()
        else:
            super().__init__(before.restarted(left), before.epoch + 1)
        self.targets: Targets = Targets() if before is None else before.targets
        self.given_up: Targets = Targets() if before is None else before.given_up
        self.asked: list[tuple[str, int]] = []
        """The body and the count of each question."""
        self.producer_lives = True
        self.rules = AskingRules(INTERVAL_MS, ASKS_MAX, age_ms_max)
        if before is not None:
            self.rules = before.rules
        self.half = HalfMessages(self.log, self.clock, self.rules, self._ask, self._give_up)
        self.answered: list[int | ApiError] = []
        self.run(self.half.load())

    def _ask(self, stored: StoredTopicMessage, count: int) -> bool:
        if self.producer_lives:
            self.asked.append((stored.message.body.decode(), count))
        return self.producer_lives

    def _give_up(self, held: HeldTopicMessage, done: Done[int | ApiError]) -> None:
        self.given_up.deliver(held, done)

    def add(self, *bodies: str) -> list[int]:
        """Store undecided messages; return their offsets."""
        before = len(self.answered)
        for body in bodies:
            self.half.add(message(body), self.now_ms + FIRST_MS, self.answered.append)
        self.world.settle()
        return [offset for offset in self.answered[before:] if isinstance(offset, int)]

    def decide(self, offset: int, *, commits: bool) -> bool:
        """Decide on a message."""
        commit = self.targets.deliver if commits else None
        return self.run(self.half.decide(offset, lambda held: None, commit))

    def again(self) -> "HalfRoom":
        """Kill the broker and start it again; its topics stay."""
        self.half.close()
        return HalfRoom(self)


async def load_slowly(
    log: HeldLog[TopicPartition], held: Callable[[int, int], None], load: Load = HeldLog.load
) -> HeldState:
    """Read a log, which gets one more message, `new`, before it is read to its end."""
    state = await load(log, held)
    log.append(message("new"), 0, ignore_result)
    for _ in range(20):
        await asyncio.sleep(0)
    return state
