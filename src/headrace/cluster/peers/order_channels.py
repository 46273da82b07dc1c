"""`OrderChannels`: deliver the controller's orders to each broker, in sequence, until answered.

A channel belongs to one registration of a broker and sends to its inter-broker listener. It is
closed when the registration or the controller's term ends. The controller waits for an answer at
most `ANSWER_SECONDS_MAX`, and not at all while the broker still has older orders to answer or seems
to be dead; an answer that arrives later is reported to the `Late` callback.
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
"""Seconds that the controller's next decision may wait for a broker's answer."""
_ONE_BY_ONE = Limits(questions_max=1, waiting_max=None)
"""Single orders in flight and no bound on waiting ones: each depends on the ones before it."""


@dataclass(slots=True)
class _Delivery:
    """Orders to one broker, as requests, with the future of their answer."""

    orders: Orders
    requests: Sequence[Told]
    answer: "asyncio.Future[Failed]"
    waited_for: bool = True
    """Whether the controller still waits for the answer; else it is reported as late."""


_FINAL = frozenset(
    (
        ErrorCode.STALE_CONTROLLER_EPOCH,
        ErrorCode.STALE_BROKER_EPOCH,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNSUPPORTED_VERSION,
    )
)
"""Refusals that a retry would receive again."""


class OrderChannel:
    """The orders to one registration of a broker. Implements `decisions.orders.OrderTaker`."""

    def __init__(
        self,
        client: Client,
        broker: BrokerInfo,
        facts: ClusterFacts,
        teller: Teller,
        late: Late,
        suspects: Mapping[BrokerId, int],
    ) -> None:
        """Create an open channel. It owns `client`. `facts` are those of the controller's term."""
        self.broker = broker
        self.facts = facts
        self._teller = teller
        self._late = late
        self._suspects = suspects
        self._conversation = Conversation(
            Peer(client, self._address), self._delivered, _run, limits=_ONE_BY_ONE
        )
        self._closed = False
        self._behind = False
        """Whether an order was not answered in time and the conversation was not idle since
        then."""

    async def take(self, orders: Orders) -> Mapping[TopicPartition, ErrorCode]:
        """Deliver orders behind all earlier ones.

        Return the partitions that failed, with error codes. Orders that only change the metadata
        shown to clients return at once: otherwise a leader that requested the ISR change would wait
        for the slowest broker. ApiError: REQUEST_TIMED_OUT after `ANSWER_SECONDS_MAX` (the orders
        are still delivered), BROKER_NOT_AVAILABLE if the registration ended or the broker seems to
        be dead, or the broker's refusal.
        """
        if self._closed:
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE)
        requests = requests_of(orders, self.facts, self._teller)
        delivery = _Delivery(orders, requests, asyncio.get_running_loop().create_future())
        self._conversation.ask(delivery, lambda outcome: self._end(delivery, outcome))
        if _only_shows(orders):
            delivery.waited_for = False
            return {}
        if self._suspects.get(self.broker.broker_id) == self.broker.epoch:
            delivery.waited_for = False
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE)
        if not self._behind:
            with suppress(TimeoutError):
                async with asyncio.timeout(ANSWER_SECONDS_MAX):
                    return await asyncio.shield(delivery.answer)
            self._behind = True
        delivery.waited_for = False
        raise ApiError(
            ErrorCode.REQUEST_TIMED_OUT, "it has not answered yet; the orders are still delivered"
        )

    def close(self) -> None:
        """Drop all undelivered orders: the registration or the controller's term has ended."""
        self._closed = True
        self._conversation.close()

    async def _delivered(self, peer: Peer, deliveries: Sequence[_Delivery]) -> Sequence[Failed]:
        """Send each request of one delivery until it is answered.

        ApiError: the broker refused it.
        """
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
        """Return the inter-broker address of the registration.

        ApiError: it has no such listener.
        """
        address = listener_address(self.broker, self._teller.listener)
        if address is None:
            raise ApiError(
                ErrorCode.BROKER_NOT_AVAILABLE,
                f"broker {self.broker.broker_id} has no listener {self._teller.listener}",
            )
        return address

    def _end(self, delivery: _Delivery, outcome: Failed | ApiError) -> None:
        """Pass the outcome of a delivery to the waiting caller, or to the `Late` callback."""
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
            # Expected if the broker stopped or registered again: not an error.
            level = logging.INFO if self._closed or is_overtaken(outcome) else logging.ERROR
            _logger.log(
                level,
                "broker %d refused the controller's orders: %s. They are not sent again; the broker"
                " gets the complete metadata when it registers the next time",
                self.broker.broker_id, outcome,
            )  # fmt: skip
        else:
            self._late(self.broker.broker_id, delivery.orders, outcome)


class _Failures:
    """Logs why requests of one delivery are resent; raises refusals that a retry cannot change."""

    def __init__(self, broker: BrokerId) -> None:
        self._broker = broker
        self._refused = False
        self._said = ""

    def __call__(self, error: ClientError | ApiError) -> None:
        if isinstance(error, ClientError):
            if str(error) != self._said:
                self._said = str(error)
                _logger.info(
                    "cannot send orders to broker %d: %s; retrying", self._broker, self._said
                )
            return
        if error.code in _FINAL:
            raise error
        if not self._refused:  # its store may fail, or name another controller still
            _logger.warning(
                "broker %d refuses the controller's orders: %s. Retrying until it accepts them; see"
                " the log of that broker", self._broker, error,
            )  # fmt: skip
        self._refused = True


class OrderChannels:
    """The channels to all registered brokers. Implements `controller.order_peers.Peers`."""

    def __init__(self, make_client: Callable[[], Client], teller: Teller) -> None:
        """Create without channels. `make_client` makes the client of one channel."""
        self.late: Late = unheard
        """Called with the outcome of orders that were answered late; the controller sets it."""
        self.suspects: Mapping[BrokerId, int] = {}
        self._make_client = make_client
        self._teller = teller
        self._channels: Registrations[OrderChannel] = Registrations()
        self._facts: ClusterFacts | None = None
        """Facts of the term that the channels belong to; None before the first one."""

    def __call__(self, broker: BrokerId, facts: ClusterFacts) -> OrderTaker | None:
        """Return the channel to a broker; None: `facts` do not have it as alive.

        With the facts of another term, all channels of the term before are closed.
        """
        info = facts.brokers.get(broker)
        if info is None:
            return None
        if facts is not self._facts:
            self.close()
            self._facts = facts
        return self._channels.of(info, lambda: self._begin(info, facts))

    def keep(self, alive: Collection[BrokerInfo]) -> None:
        """Close the channels to registrations that are not among `alive`."""
        self._channels.keep(alive)

    def close(self) -> None:
        """Close all channels and drop their undelivered orders."""
        self._channels.keep(())

    def _begin(self, broker: BrokerInfo, facts: ClusterFacts) -> OrderChannel:
        return OrderChannel(
            self._make_client(), broker, facts, self._teller, self._heard_late, self.suspects
        )

    def _heard_late(self, broker: BrokerId, orders: Orders, failed: Failed) -> None:
        self.late(broker, orders, failed)


def _run(work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
    return asyncio.get_running_loop().create_task(work)


def _only_shows(orders: Orders) -> bool:
    """Return whether orders only change partition states in the metadata shown to clients."""
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
