"""`PeerService`: serves the requests of other brokers and of the controller.

Implements `PeerPort`.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from headrace.broker.metadata_image import BrokerInfo
from headrace.broker.replica.leading_right import Ping, PingAnswer
from headrace.cluster.controller.controller import Controller
from headrace.cluster.decisions.events import IsrAsked
from headrace.cluster.decisions.orders import Failed, Orders
from headrace.cluster.peers import order_messages, queue_topic_calls
from headrace.cluster.peers.peer_call import Fields
from headrace.cluster.peers.peer_port import DeclarationsPort
from headrace.cluster.peers.queue_topic_calls import Outcomes, QueueTopicChanges
from headrace.cluster.settings.entity_settings import store_failed
from headrace.cluster.store import znodes
from headrace.cluster.store.catalog import Catalog
from headrace.cluster.store.znodes import ProducerIdBlock
from headrace.copies.messages import CopyAnswer, CopyQuestion
from headrace.copies.settled_follower import SettledFollower
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.ports.store import StoreError
from headrace.posix.awaiting import called_back
from headrace.remote_queues.leader.queue_sessions import QueueSessions
from headrace.replication.controller_calls import AskedIsr, IsrAnswer

Followed = Callable[[], SettledFollower]
"""Returns the copies of settled positions on this broker."""


class PeerService:
    """Applies a controller's requests, one at a time, and serves requests to the controller."""

    def __init__(self, controller: Controller, catalog: Catalog, followed: Followed) -> None:
        """Create the service. `catalog`: the store, for topic settings and registrations."""
        self._controller = controller
        self._catalog = catalog
        self._broker = controller.broker
        self._followed = followed
        self.queue_sessions: QueueSessions | None = None
        """Sessions of other brokers with queues that this broker leads; None: it has no queues."""
        self.followed_declarations: DeclarationsPort | None = None
        """The declarations of vhosts on this broker; None: it does not follow them."""
        self.on_alarm: Callable[[Fields], None] | None = None
        """Takes another broker's alarm; None: this broker has no queues."""
        self._turn = asyncio.Lock()
        """Held while one request of a controller is decoded and applied, so that none overtakes
        another."""

    def shows(self, broker: BrokerId) -> bool:
        """Return whether the metadata image has a broker with this id."""
        return broker in self._broker.image.brokers

    async def knows(self, broker: BrokerId) -> bool:
        """Return whether the metadata image or the store has a broker with this id."""
        if self.shows(broker):
            return True
        try:
            return await self._catalog.broker_epoch(broker) is not None
        except StoreError as error:
            raise store_failed(error) from error

    async def lead_and_follow(self, request: Fields) -> Failed:
        """Apply a LeaderAndIsr request; return the partitions that failed, with error codes."""
        async with self._turn:
            orders = order_messages.led_and_followed(request, self._broker.broker_id)
            configs = await self._configs_of_unknown(request)
            return await self._take(orders, configs)

    async def show(self, request: Fields) -> None:
        """Apply an UpdateMetadata request to the metadata image that clients are shown."""
        async with self._turn:
            configs = await self._configs_of_unknown(request)
            registered = await self._registered(request)
            image = self._broker.image
            delta = order_messages.shown(request, image.topics, configs, registered)
            epochs = request["controllerEpoch"], request["brokerEpoch"]
            await self._take(Orders(*epochs, delta=delta))

    async def stop_replicas(self, request: Fields) -> Failed:
        """Apply a StopReplica request; return the partitions that failed, with error codes."""
        async with self._turn:
            return await self._take(order_messages.stopped(request, self._broker.image.topics))

    async def shut_down(self, broker: BrokerId, broker_epoch: int) -> Sequence[TopicPartition]:
        """Move leadership away from `broker`, as the controller.

        Return the partitions that it still leads and whose other replicas may yet join the ISR.
        """
        return await self._controller.in_term(lambda term: term.shut_down(broker, broker_epoch))

    async def alter_partitions(
        self, broker: BrokerId, broker_epoch: int, asked: Sequence[AskedIsr]
    ) -> Mapping[TopicPartition, IsrAnswer | ErrorCode]:
        """Change ISRs, as the controller.

        Return for each partition its state now, or the error code.
        """
        event = IsrAsked(broker, broker_epoch, asked)
        return await self._controller.in_term(lambda term: term.alter_partitions(event))

    async def allocate_producer_ids(self, broker: BrokerId, broker_epoch: int) -> ProducerIdBlock:
        """Reserve a block of producer ids for `broker`, as the controller."""
        return await self._controller.in_term(
            lambda term: term.allocate_producer_ids(broker, broker_epoch)
        )

    async def change_queue_topics(self, changes: QueueTopicChanges) -> Outcomes:
        """Create and delete topics of queues, as the controller; return the errors in order."""
        refusal = self._controller.not_controller()
        if refusal is not None:
            raise refusal
        return await queue_topic_calls.carry_out(self._controller, changes)

    async def copy_settled(self, questions: Sequence[CopyQuestion]) -> Sequence[CopyAnswer]:
        """Write frames of settled positions for their leaders; return the answers."""
        return await called_back(lambda done: self._followed().answer(questions, done))

    def pinged(self, ping: Ping) -> PingAnswer:
        """Return the leader epochs that a ping does not know."""
        applier = self._controller.applier
        if applier.rights is None:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        if applier.broker_epoch < 0:
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE)
        return applier.rights.answer(ping, applier.broker_epoch)

    def note_alarm(self, request: Fields) -> None:
        """Note an alarm of another broker. ApiError UNSUPPORTED_VERSION: this one has no queues."""
        if self.on_alarm is None:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        self.on_alarm(request)

    @property
    def declarations(self) -> DeclarationsPort:
        """The declarations of vhosts. ApiError UNSUPPORTED_VERSION: the broker has none."""
        if self.followed_declarations is None:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        return self.followed_declarations

    def queue_sessions_of(self, broker_epoch: int) -> QueueSessions:
        """Return the sessions of other brokers with the queues that this registration leads."""
        if self.queue_sessions is None:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        if broker_epoch not in (-1, self._controller.applier.broker_epoch):
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        return self.queue_sessions

    async def _take(
        self, orders: Orders, configs: Mapping[str, Mapping[str, str]] | None = None
    ) -> Failed:
        if configs:
            orders = Orders(
                orders.controller_epoch, orders.broker_epoch, orders.orders, configs=configs
            )
        return dict(await self._controller.applier.take(orders))

    async def _configs_of_unknown(self, request: Fields) -> Mapping[str, Mapping[str, str]]:
        """Read the settings of those topics of the request that the metadata image lacks."""
        names = order_messages.unknown_topics(request, self._broker.image.topics)
        if not names:
            return {}
        try:
            return await self._catalog.topic_configs(names)
        except (StoreError, znodes.BadPayload) as error:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error

    async def _registered(self, request: Fields) -> Mapping[BrokerId, BrokerInfo]:
        """Return the registered brokers with their epochs.

        From the metadata image, or from the store if the image lacks a broker of the request.
        """
        known = self._broker.image.brokers
        if all(broker["id"] in known for broker in request["liveBrokers"]):
            return known
        try:
            return {broker.broker_id: broker for broker in await self._catalog.brokers()}
        except StoreError as error:
            raise store_failed(error) from error
