"""The controller's way to each broker: orders in sequence, again until they have arrived.

A channel leads to one registration of a broker, through its listener for brokers. It goes on until
the broker is registered no longer or its controller's term is over. The controller waits for an
answer only so long, and not at all for a broker that is behind: what arrives later is reported to
`Late`.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from headrace.broker.metadata_image import BrokerInfo
from headrace.client.calls.call import check, error_code
from headrace.client.client import BACKOFF_SECONDS_MAX, BACKOFF_SECONDS_MIN, Client
from headrace.client.transport.port import Address, ClientError
from headrace.cluster.decisions.facts import ClusterFacts
from headrace.cluster.decisions.orders import (
    Failed,
    Late,
    Orders,
    OrderTaker,
    is_overtaken,
    unheard,
)
from headrace.cluster.peers.order_messages import Teller, Told, requests_of
from headrace.cluster.peers.peer_call import Fields, PeerCall
from headrace.model.errors import ApiError, ErrorCode, Malformed
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.wire.kafka.api import ApiKey

_logger = logging.getLogger(__name__)

ANSWER_SECONDS_MAX = 2.0
"""How long the controller's next decision may wait for a broker's answer."""


@dataclass(slots=True)
class _Delivery:
    orders: Orders
    requests: Sequence[Told]
    answer: "asyncio.Future[Failed]"
    waited_for: bool = True


_FINAL = frozenset(
    (
        ErrorCode.STALE_CONTROLLER_EPOCH,
        ErrorCode.STALE_BROKER_EPOCH,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNSUPPORTED_VERSION,
    )
)
"""Refusals that are the same the next time."""


class OrderChannel:
    """The way to one registration of a broker. `decisions.orders.OrderTaker`."""

    def __init__(
        self,
        client: Client,
        broker: BrokerInfo,
        facts: ClusterFacts,
        teller: Teller,
        late: Late,
    ) -> None:
        """`client` is the channel's own. `facts` are those of the controller's term."""
        self.broker = broker
        self.facts = facts
        self._client = client
        self._teller = teller
        self._late = late
        self._queue: deque[_Delivery] = deque()
        self._work: asyncio.Task[None] | None = None
        self._closed = False
        self._behind = False
        """Whether orders were not answered in time, and others stand behind them."""

    async def take(self, orders: Orders) -> Mapping[TopicPartition, ErrorCode]:
        """Have the orders carried out over there, all that came before done first.

        That clients are shown another leader or ISR is not waited for: a leader that asked for the
        ISR would wait for the slowest broker of all. ApiError: REQUEST_TIMED_OUT where it takes
        longer, BROKER_NOT_AVAILABLE where the broker has gone, or what it refused them with.
        """
        if self._closed:
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE)
        loop = asyncio.get_running_loop()
        requests = requests_of(orders, self.facts, self._teller)
        delivery = _Delivery(orders, requests, loop.create_future())
        self._queue.append(delivery)
        if self._work is None:
            self._work = loop.create_task(self._deliver())
        if _only_shows(orders):
            delivery.waited_for = False
            return {}
        if not self._behind:
            with suppress(TimeoutError):
                async with asyncio.timeout(ANSWER_SECONDS_MAX):
                    return await asyncio.shield(delivery.answer)
            self._behind = True
        delivery.waited_for = False
        raise ApiError(ErrorCode.REQUEST_TIMED_OUT, "it has not answered yet")

    def close(self) -> None:
        """Order nothing any more: the broker has gone, or somebody else is the controller."""
        self._closed = True
        if self._work is not None:
            self._work.cancel()
        while self._queue:
            self._end(self._queue.popleft(), ApiError(ErrorCode.BROKER_NOT_AVAILABLE))
        self._client.close()

    async def _deliver(self) -> None:
        try:
            while self._queue:
                delivery = self._queue[0]
                try:
                    outcome: Failed | ApiError = await self._delivered(delivery)
                except ApiError as error:
                    outcome = error
                self._queue.popleft()
                self._end(delivery, outcome)
            self._behind = False
        finally:
            # After a bug too, which the loop logs: the next order has a way again.
            self._work = None

    async def _delivered(self, delivery: _Delivery) -> Failed:
        failed: Failed = {}
        for told in delivery.requests:
            failed |= await self._asked(PeerCall(told.key, told.fields, _PARSERS[told.key](told)))
        return failed

    async def _asked(self, call: PeerCall[Failed]) -> Failed:
        """Ask until there is an answer. ApiError: it refuses, or does not know such requests."""
        backoff, refused, said = BACKOFF_SECONDS_MIN, False, ""
        while True:
            endpoint = self.broker.endpoint(self._teller.listener)
            if endpoint is None:
                reason = f"broker {self.broker.broker_id} has no listener {self._teller.listener}"
                raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, reason)
            try:
                link = await self._client.link_to(Address(endpoint.host, endpoint.port))
                return await self._client.ask(link, call)
            except ClientError as error:
                if str(error) != said:
                    said = str(error)
                    _logger.info("orders for broker %d: %s", self.broker.broker_id, said)
            except ApiError as error:  # its store may fail, or it has not heard of us yet
                if error.code in _FINAL:
                    raise
                if not refused:
                    _logger.warning(
                        "broker %d does not take orders: %s; they are sent again until it does:"
                        " see its log", self.broker.broker_id, error,
                    )  # fmt: skip
                refused = True
            except Malformed as error:
                raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error
            await self._client.transport.sleep(backoff)
            backoff = min(2 * backoff, BACKOFF_SECONDS_MAX)

    def _end(self, delivery: _Delivery, outcome: Failed | ApiError) -> None:
        if delivery.waited_for:
            if isinstance(outcome, ApiError):
                if not delivery.answer.done():
                    delivery.answer.set_exception(outcome)
                    delivery.answer.exception()  # whoever asked may have been cancelled
            elif not delivery.answer.done():
                delivery.answer.set_result(outcome)
        elif isinstance(outcome, ApiError):
            # Of a broker that has gone, or has registered again since, it is no news.
            level = logging.INFO if self._closed or is_overtaken(outcome) else logging.ERROR
            _logger.log(level, "broker %d does not take orders: %s", self.broker.broker_id, outcome)
        else:
            self._late(self.broker.broker_id, delivery.orders, outcome)


class OrderChannels:
    """The ways to all brokers. `controller.order_peers.Peers`."""

    def __init__(self, make_client: Callable[[], Client], teller: Teller) -> None:
        """`make_client` makes one for each broker."""
        self.late: Late = unheard
        """Told what came of orders late; set by the controller."""
        self._make_client = make_client
        self._teller = teller
        self._channels: dict[BrokerId, OrderChannel] = {}

    def __call__(self, broker: BrokerId, facts: ClusterFacts) -> OrderTaker | None:
        """Return the way to a broker that `facts` say is alive."""
        info = facts.brokers.get(broker)
        if info is None:
            return None
        channel = self._channels.get(broker)
        if channel is not None and channel.broker == info and channel.facts is facts:
            return channel
        if channel is not None:
            channel.close()
        channel = OrderChannel(self._make_client(), info, facts, self._teller, self._heard_late)
        self._channels[broker] = channel
        return channel

    def keep(self, alive: Collection[BrokerInfo]) -> None:
        """Give up on all brokers that are not among these, or have registered anew."""
        present = {broker.broker_id: broker for broker in alive}
        for broker, channel in list(self._channels.items()):
            if present.get(broker) != channel.broker:
                self._channels.pop(broker).close()

    def close(self) -> None:
        """Order nothing any more."""
        self.keep(())

    def _heard_late(self, broker: BrokerId, orders: Orders, failed: Failed) -> None:
        self.late(broker, orders, failed)


def _only_shows(orders: Orders) -> bool:
    """Tell whether there is nothing to do but to show partitions' states."""
    delta = orders.delta
    return not (orders.orders or delta.topics or delta.removed or delta.brokers is not None)


def _partition_errors(told: Told) -> Callable[[Fields], Failed]:
    def parse(response: Fields) -> Failed:
        check(response["errorCode"])
        return {
            TopicPartition(error["topicName"], error["partitionIndex"]): error_code(
                error["errorCode"]
            )
            for error in response["partitionErrors"]
            if error["errorCode"]
        }

    return parse


def _errors_by_id(told: Told) -> Callable[[Fields], Failed]:
    names = {topic["topicId"]: topic["topicName"] for topic in told.fields["topicStates"]}

    def parse(response: Fields) -> Failed:
        check(response["errorCode"])
        return {
            TopicPartition(names[topic["topicId"]], error["partitionIndex"]): error_code(
                error["errorCode"]
            )
            for topic in response["topics"]
            if topic["topicId"] in names
            for error in topic["partitionErrors"]
            if error["errorCode"]
        }

    return parse


def _code_alone(told: Told) -> Callable[[Fields], Failed]:
    def parse(response: Fields) -> Failed:
        check(response["errorCode"])
        return {}

    return parse


_PARSERS: dict[ApiKey, Callable[[Told], Callable[[Fields], Failed]]] = {
    ApiKey.LEADER_AND_ISR: _errors_by_id,
    ApiKey.UPDATE_METADATA: _code_alone,
    ApiKey.STOP_REPLICA: _partition_errors,
}
