"""A broker's answers to the others of its cluster. `peer_port.PeerPort`."""

import asyncio
from collections.abc import Mapping, Sequence

from headrace.broker.metadata_image import BrokerInfo
from headrace.cluster.controller.controller import Controller
from headrace.cluster.decisions.events import IsrAsked
from headrace.cluster.decisions.orders import Failed, Orders
from headrace.cluster.peers import order_messages
from headrace.cluster.peers.peer_call import Fields
from headrace.cluster.settings.entity_settings import store_failed
from headrace.cluster.store import znodes
from headrace.cluster.store.catalog import Catalog
from headrace.cluster.store.znodes import ProducerIdBlock
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.ports.store import StoreError
from headrace.replication.controller_calls import AskedIsr, IsrAnswer


class PeerService:
    """Takes orders in the sequence in which they come; decides where it is the controller."""

    def __init__(self, controller: Controller, catalog: Catalog) -> None:
        """`catalog` is read: the settings of topics, and who is registered, are in no order."""
        self._controller = controller
        self._catalog = catalog
        self._broker = controller.broker
        self._turn = asyncio.Lock()

    async def knows(self, broker: BrokerId) -> bool:
        """Tell whether a broker of this id is registered."""
        if broker in self._broker.image.brokers:
            return True
        try:
            return await self._catalog.broker_epoch(broker) is not None
        except StoreError as error:
            raise store_failed(error) from error

    async def lead_and_follow(self, request: Fields) -> Failed:
        """Carry out a LeaderAndIsr request; what could not be, by partition."""
        async with self._turn:
            orders = order_messages.led_and_followed(request, self._broker.broker_id)
            configs = await self._configs_of_unknown(request)
            return await self._take(orders, configs)

    async def show(self, request: Fields) -> None:
        """Show clients what an UpdateMetadata request tells."""
        async with self._turn:
            configs = await self._configs_of_unknown(request)
            registered = await self._registered(request)
            image = self._broker.image
            delta = order_messages.shown(request, image.topics, configs, registered)
            epochs = request["controllerEpoch"], request["brokerEpoch"]
            await self._take(Orders(*epochs, delta=delta))

    async def stop_replicas(self, request: Fields) -> Failed:
        """Carry out a StopReplica request; what could not be, by partition."""
        async with self._turn:
            return await self._take(order_messages.stopped(request, self._broker.image.topics))

    async def shut_down(self, broker: BrokerId, broker_epoch: int) -> Sequence[TopicPartition]:
        """Have others lead what a broker leads, as the controller; what it leads still."""
        return await self._controller.in_term(lambda term: term.shut_down(broker, broker_epoch))

    async def alter_partitions(
        self, broker: BrokerId, broker_epoch: int, asked: Sequence[AskedIsr]
    ) -> Mapping[TopicPartition, IsrAnswer | ErrorCode]:
        """Change ISRs as the controller; each partition's state then, or why it stays."""
        event = IsrAsked(broker, broker_epoch, asked)
        return await self._controller.in_term(lambda term: term.alter_partitions(event))

    async def allocate_producer_ids(self, broker: BrokerId, broker_epoch: int) -> ProducerIdBlock:
        """Reserve a block of producer ids as the controller."""
        return await self._controller.in_term(
            lambda term: term.allocate_producer_ids(broker, broker_epoch)
        )

    async def _take(
        self, orders: Orders, configs: Mapping[str, Mapping[str, str]] | None = None
    ) -> Failed:
        if configs:
            orders = Orders(
                orders.controller_epoch, orders.broker_epoch, orders.orders, configs=configs
            )
        return dict(await self._controller.applier.take(orders))

    async def _configs_of_unknown(self, request: Fields) -> Mapping[str, Mapping[str, str]]:
        """Read the settings of the request's topics that the picture does not have."""
        names = order_messages.unknown_topics(request, self._broker.image.topics)
        if not names:
            return {}
        try:
            return await self._catalog.topic_configs(names)
        except (StoreError, znodes.BadPayload) as error:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error

    async def _registered(self, request: Fields) -> Mapping[BrokerId, BrokerInfo]:
        """Return the brokers with their epochs: the picture's, or the store's where one is new."""
        known = self._broker.image.brokers
        if all(broker["id"] in known for broker in request["liveBrokers"]):
            return known
        try:
            return {broker.broker_id: broker for broker in await self._catalog.brokers()}
        except StoreError as error:
            raise store_failed(error) from error
