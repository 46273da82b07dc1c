"""A controller's orders on their way to a broker of the simulation."""

import asyncio
from collections.abc import Callable, Mapping

from headrace.cluster.orders import Orders, OrderTaker
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.testing.sim.network import SimNetwork

ANSWER_SECONDS_MAX = 2.0
"""How long a controller waits for an answer; the orders arrive later than that, or never."""

Outcome = Mapping[TopicPartition, ErrorCode]


class OrderWay:
    """The way from one machine to another. `cluster.orders.OrderTaker`."""

    def __init__(
        self,
        network: SimNetwork,
        source: str,
        target: str,
        applier: Callable[[str], OrderTaker | None],
    ) -> None:
        """`applier` returns who takes orders on a machine, None where nobody runs."""
        self._network = network
        self._source = source
        self._target = target
        self._applier = applier

    async def take(self, orders: Orders) -> Outcome:
        """Send orders; what could not be done. ApiError: they were refused, or not answered yet."""
        loop = self._network.loop
        answer: asyncio.Future[Outcome | ApiError] = loop.create_future()
        self._network.carry(self._source, self._target, lambda: self._arrived(orders, answer))
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                outcome = await answer
        except TimeoutError:
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT) from None
        if isinstance(outcome, ApiError):
            raise outcome
        return outcome

    def _arrived(self, orders: Orders, answer: "asyncio.Future[Outcome | ApiError]") -> None:
        taker = self._applier(self._target)
        if taker is not None:
            self._network.loop.create_task(self._carried_out(taker, orders, answer))

    async def _carried_out(
        self, taker: OrderTaker, orders: Orders, answer: "asyncio.Future[Outcome | ApiError]"
    ) -> None:
        try:
            outcome: Outcome | ApiError = await taker.take(orders)
        except ApiError as error:
            outcome = error
        self._network.carry(self._target, self._source, lambda: _answered(answer, outcome))


def _answered(answer: "asyncio.Future[Outcome | ApiError]", outcome: Outcome | ApiError) -> None:
    if not answer.done():
        answer.set_result(outcome)
