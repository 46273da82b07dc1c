"""The controller's orders for each broker: in sequence, sent again until they have arrived.

A channel is the conversation with one registration of a broker, through its listener for brokers.
It goes on until the broker is registered no longer or its controller's term is over. The controller
waits for an answer only so long, and not at all for a broker that is behind: an answer that arrives
later is reported to `Late`.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from headrace.broker.metadata_image import BrokerInfo
from headrace.client.calls.call import check, error_code
from headrace.client.client import Client
from headrace.client.transport.peer import Peer
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
from headrace.cluster.peers.conversation import Conversation, Limits
from headrace.cluster.peers.order_messages import Teller, Told, requests_of
from headrace.cluster.peers.peer_call import Fields, PeerCall
from headrace.cluster.peers.registrations import Registrations, listener_address
from headrace.model.errors import ApiError, ErrorCode, Malformed
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.wire.kafka.api import ApiKey

_logger = logging.getLogger(__name__)

ANSWER_SECONDS_MAX = 2.0
"""How long the controller's next decision may wait for a broker's answer."""
_ONE_BY_ONE = Limits(questions_max=1, waiting_max=None)
"""Each order depends on the ones before it: none may be refused, or overtake another."""


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
    """Orders for one registration of a broker. `decisions.orders.OrderTaker`."""

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
        self._teller = teller
        self._late = late
        self._conversation = Conversation(
            Peer(client, self._address), self._delivered, _run, limits=_ONE_BY_ONE
        )
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
        requests = requests_of(orders, self.facts, self._teller)
        delivery = _Delivery(orders, requests, asyncio.get_running_loop().create_future())
        self._conversation.ask(delivery, lambda outcome: self._end(delivery, outcome))
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
        """Order nothing any more: the broker has gone, or another one is the controller."""
        self._closed = True
        self._conversation.close()

    async def _delivered(self, peer: Peer, deliveries: Sequence[_Delivery]) -> Sequence[Failed]:
        """Send each request of a delivery until it is answered; ApiError: it is refused."""
        await self._address()  # no attempt reaches a registration without the listener
        failed: Failed = {}
        failures = _Failures(self.broker.broker_id)
        try:
            for told in deliveries[0].requests:
                call = PeerCall(told.key, told.fields, _PARSERS[told.key](told))
                failed |= await peer.ask_until_answered(call, failures)
        except Malformed as error:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error
        return [failed]

    async def _address(self) -> Address:
        address = listener_address(self.broker, self._teller.listener)
        if address is None:
            raise ApiError(
                ErrorCode.BROKER_NOT_AVAILABLE,
                f"broker {self.broker.broker_id} has no listener {self._teller.listener}",
            )
        return address

    def _end(self, delivery: _Delivery, outcome: Failed | ApiError) -> None:
        if self._closed:
            outcome = ApiError(ErrorCode.BROKER_NOT_AVAILABLE)
        if self._conversation.idle:
            self._behind = False
        if delivery.waited_for:
            if isinstance(outcome, ApiError):
                if not delivery.answer.done():
                    delivery.answer.set_exception(outcome)
                    delivery.answer.exception()  # the caller of `take` may have been cancelled
            elif not delivery.answer.done():
                delivery.answer.set_result(outcome)
        elif isinstance(outcome, ApiError):
            # Of a broker that has gone, or has registered again since, it is no news.
            level = logging.INFO if self._closed or is_overtaken(outcome) else logging.ERROR
            _logger.log(level, "broker %d does not take orders: %s", self.broker.broker_id, outcome)
        else:
            self._late(self.broker.broker_id, delivery.orders, outcome)


class _Failures:
    """Logs why requests of one delivery are sent again; raises refusals that stay the same."""

    def __init__(self, broker: BrokerId) -> None:
        self._broker = broker
        self._refused = False
        self._said = ""

    def __call__(self, error: ClientError | ApiError) -> None:
        if isinstance(error, ClientError):
            if str(error) != self._said:
                self._said = str(error)
                _logger.info("orders for broker %d: %s", self._broker, self._said)
            return
        if error.code in _FINAL:
            raise error
        if not self._refused:  # its store may fail, or it has not heard of us yet
            _logger.warning(
                "broker %d does not take orders: %s; they are sent again until it does:"
                " see its log", self._broker, error,
            )  # fmt: skip
        self._refused = True


class OrderChannels:
    """Orders for all brokers. `controller.order_peers.Peers`."""

    def __init__(self, make_client: Callable[[], Client], teller: Teller) -> None:
        """`make_client` makes one for each broker."""
        self.late: Late = unheard
        """Told the outcome of orders that came late; set by the controller."""
        self._make_client = make_client
        self._teller = teller
        self._channels: Registrations[OrderChannel] = Registrations()
        self._facts: ClusterFacts | None = None
        """Of the term that the channels belong to."""

    def __call__(self, broker: BrokerId, facts: ClusterFacts) -> OrderTaker | None:
        """Return the channel to a broker that `facts` say is alive."""
        info = facts.brokers.get(broker)
        if info is None:
            return None
        if facts is not self._facts:
            self.close()
            self._facts = facts
        return self._channels.of(info, lambda: self._begin(info, facts))

    def keep(self, alive: Collection[BrokerInfo]) -> None:
        """Give up on all brokers that are not among these, or have registered again."""
        self._channels.keep(alive)

    def close(self) -> None:
        """Order nothing any more."""
        self._channels.keep(())

    def _begin(self, broker: BrokerInfo, facts: ClusterFacts) -> OrderChannel:
        return OrderChannel(self._make_client(), broker, facts, self._teller, self._heard_late)

    def _heard_late(self, broker: BrokerId, orders: Orders, failed: Failed) -> None:
        self.late(broker, orders, failed)


def _run(work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
    return asyncio.get_running_loop().create_task(work)


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
