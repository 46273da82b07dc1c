"""A leader's questions on their way to whichever simulated broker is the controller."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol

from headrace.cluster.controller import Controller
from headrace.cluster.events import IsrAsked
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.replication.controller_calls import AskedIsr, IsrAnswer
from headrace.testing.sim.loop import SimLoop

ANSWER_SECONDS_MAX = 2.0
LOST_SHARE = 0.05
"""The share of answers that never come; what was asked for is done."""

Answers = Mapping[TopicPartition, IsrAnswer | ErrorCode]


class Way(Protocol):
    """The network. `SimNetwork`."""

    loop: SimLoop

    def carry(self, source: str, target: str, arrive: Callable[[], None]) -> None: ...


class CallsToController:
    """The controller as one broker reaches it. `replication.controller_calls.ControllerCalls`."""

    def __init__(
        self,
        network: Way,
        number: int,
        seed: int,
        broker_epoch: Callable[[], int],
        controller: Callable[[], tuple[int, Controller] | None],
    ) -> None:
        """`controller` returns the broker that decides now, None where nobody does."""
        self._broker_epoch = broker_epoch
        self._network = network
        self._number = number
        self._controller = controller
        self._random = random.Random(f"calls of {number} {seed}")  # noqa: S311 - not for secrets

    async def alter_partitions(self, asked: Sequence[AskedIsr]) -> Answers:
        """Do as `ControllerCalls` says."""
        found = self._controller()
        if found is None:
            raise ApiError(ErrorCode.NOT_CONTROLLER)
        number, controller = found
        loop = self._network.loop
        answer: asyncio.Future[Answers | ApiError] = loop.create_future()
        own, there = f"broker-{self._number}", f"broker-{number}"

        async def decide() -> None:
            try:
                outcome: Answers | ApiError = await self._decided(controller, asked)
            except ApiError as error:
                outcome = error
            if self._random.random() >= LOST_SHARE:
                self._network.carry(there, own, lambda: _give(answer, outcome))

        self._network.carry(own, there, lambda: _run(loop, decide()))
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                outcome = await answer
        except TimeoutError:
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT) from None
        if isinstance(outcome, ApiError):
            raise outcome
        return outcome

    async def _decided(self, controller: Controller, asked: Sequence[AskedIsr]) -> Answers:
        event = IsrAsked(BrokerId(self._number), self._broker_epoch(), asked)
        result = await controller.carry_out(event)
        answers: dict[TopicPartition, IsrAnswer | ErrorCode] = {}
        for each in asked:
            key = each.topic_partition
            answers[key] = result.refused.get(key) or _state(controller, key)
        return answers


def _state(controller: Controller, key: TopicPartition) -> IsrAnswer:
    term = controller._term
    if term is None:
        raise ApiError(ErrorCode.NOT_CONTROLLER)
    topic = term.facts.topics[key.topic]
    state, version = topic.states[key.partition], topic.versions[key.partition]
    return IsrAnswer(state.leader, state.leader_epoch, state.isr, version)


def _run(loop: SimLoop, work: Coroutine[Any, Any, None]) -> None:
    loop.create_task(work)


def _give(answer: "asyncio.Future[Answers | ApiError]", outcome: Answers | ApiError) -> None:
    if not answer.done():
        answer.set_result(outcome)
