"""A broker's requests to the cluster's controller, and its own part in being the controller.

The holder of `/controller` in the store is the controller (`term`); the other brokers watch it and
carry out its orders (`membership.applier`). Requests for the controller are answered NOT_CONTROLLER
elsewhere. One change at a time, through `ports.store.Store` only: ZooKeeper, or SQLite.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from headrace.broker.broker import Broker
from headrace.broker.metadata_image import Endpoint, ImageDelta, TopicInfo
from headrace.broker.producer_ids import PRODUCER_ID_BLOCK_SIZE
from headrace.cluster.controller.auto_creation import AutoCreation, Create
from headrace.cluster.controller.known_controller import KnownController
from headrace.cluster.controller.late_leaders import LateLeaders, Unmade
from headrace.cluster.controller.order_peers import NoPeers, Peers
from headrace.cluster.controller.producer_id_blocks import ProducerIdBlocks
from headrace.cluster.controller.term import ControllerTerm, Result
from headrace.cluster.controller.topic_requests import TopicIds, TopicRequests
from headrace.cluster.decisions.events import BrokersDrained, Event
from headrace.cluster.decisions.facts import ClusterFacts
from headrace.cluster.decisions.orders import Failed, Orders, OrderTaker
from headrace.cluster.membership.applier import Applier
from headrace.cluster.membership.registration import OwnRegistration
from headrace.cluster.settings.entity_settings import store_failed
from headrace.cluster.settings.runtime_settings import Settings
from headrace.cluster.store import znodes
from headrace.cluster.store.catalog import Catalog
from headrace.cluster.store.reaction import log_failure
from headrace.cluster.store.znodes import ProducerIdBlock
from headrace.cluster.topics.creation import NewTopic, Spend, freely
from headrace.config.log_config import LogConfig
from headrace.model.errors import ApiError, ConfigError, ErrorCode
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.ports.store import SessionEvents, Store, StoreError
from headrace.posix.awaiting import carried_on

if TYPE_CHECKING:
    from headrace.cluster.controller.store_watches import StoreWatches
    from headrace.cluster.controller_port import ReplicasPort

_logger = logging.getLogger(__name__)

T = TypeVar("T")


class Controller:
    """This broker's candidacy and membership. Implements `ControllerPort`.

    On the deciding thread.
    """

    def __init__(
        self,
        broker: Broker,
        store: Store,
        session: SessionEvents,
        *,
        peers: Peers | None = None,
    ) -> None:
        """Create the controller's part of this broker on an open store.

        `session`: gets callbacks of the store's session. `peers`: order channels to other brokers;
        None: there are none.
        """
        self.broker = broker
        self._store = store
        self._catalog = Catalog(store)
        self._change = asyncio.Lock()
        self.settings = Settings(broker, self._catalog, self._change)
        """Describes and changes settings of topics and brokers."""
        self.applier = Applier(broker, self.settings.log_config)
        """Receives the orders for this broker, from whichever controller."""
        self._peers = NoPeers() if peers is None else peers
        self._peers.late = self._answered_late
        self.known = KnownController(broker)
        self._peers.suspects = broker.image.suspects
        self._late: list[tuple[BrokerId, Orders, Failed]] = []
        self._late_leaders = LateLeaders()
        self._term: ControllerTerm | None = None
        self.registration = registration = OwnRegistration(broker, store)
        self.applier.session = lambda: registration.session
        self._topics = TopicRequests(broker, self._decided)
        self.forward(self._create_one, lambda: self.reserve_producer_ids(broker.broker_id))
        self._unwatch: list[Callable[[], None]] = []
        self._reaction: asyncio.Task[None] | None = None
        self._again = False
        session.lost = self._lost
        session.expired = session.reconnected = self._back
        broker.image.observers.append(self._picture_changed)

    def forward(self, create: Create, reserve: Callable[[], Awaitable[ProducerIdBlock]]) -> None:
        """Set how topics are created and ids reserved on any broker: by the controller.

        Without it only the controller creates topics.
        """
        self._auto_creation = AutoCreation(self.broker, create)
        self._producer_ids = ProducerIdBlocks(self.broker.producer_ids, reserve)

    @property
    def replicas(self) -> "ReplicasPort":
        """Elections and reassignments."""
        return self._watches.replicas

    @cached_property
    def _watches(self) -> "StoreWatches":
        from headrace.cluster.controller.store_watches import StoreWatches

        parts = (self.broker, self._catalog, self.settings, self.carry_out)
        return StoreWatches(*parts, lambda: self._present_term().facts, self._change)

    # --- life ----------------------------------------------------------------------------------

    async def log_configs(self) -> Callable[[TopicPartition], LogConfig]:
        """Return the function that gives a partition's log settings.

        Call it before logs are loaded.
        """
        await self._catalog.prepare()
        await self.settings.load()
        if self._store.shared:
            await self._watches.doubts.judge()
        return await self.settings.log_configs()

    async def start(self, endpoints: Sequence[Endpoint]) -> None:
        """Register the broker, and become the controller unless another broker is.

        The log directories are loaded, with `log_configs`. With a store of its own, the broker
        leads all its topics when this returns; in a cluster, those that the controller orders.
        `endpoints`: those that clients are shown. ConfigError: the broker's id is taken, or the log
        directories belong to another cluster.
        """
        broker, catalog = self.broker, self._catalog
        await catalog.prepare()
        await catalog.cluster_id(broker.cluster_id, broker.config.log_dirs)
        if self._store.shared:
            await self._watches.look_back(self.applier, self.registration)
        doubts = self._watches.doubts.doubts if self._store.shared else {}
        self.applier.broker_epoch = await self.registration.announce(endpoints, doubts)
        self._unwatch.append(self.settings.stop)
        await self.settings.load()
        if self._store.shared:
            for path in (znodes.CONTROLLER, znodes.BROKER_IDS):
                self._unwatch.append(self._store.watch(path, lambda _: self._look_again()))
            self._unwatch.append(self._watches.stop)
            self._watches.start()
        async with self._change:
            await self._stand()

    async def stop(self) -> None:
        """End the term and stop all watches; waits for a decision in progress."""
        for cancel in self._unwatch:
            cancel()
        self._unwatch.clear()
        self._peers.close()
        async with self._change:
            self._end_term()

    async def leave(self) -> None:
        """Close the store; this broker's ephemeral nodes are deleted, and pending calls fail."""
        self._end_term()
        await self._store.close()

    def _end_term(self) -> None:
        self._term = None
        if self._reaction is not None:
            self._reaction.cancel()  # it would read the store, which is closed next

    @property
    def is_controller(self) -> bool:
        """Whether this broker is the controller."""
        return self._term is not None

    async def _stand(self) -> None:
        """Become the controller if no broker is; else show clients the present one."""
        broker, catalog, now_ms = self.broker, self._catalog, self.broker.clock.wall_ms()
        if await catalog.elect(broker.broker_id, now_ms) or await catalog.resume():
            term = ControllerTerm(broker, catalog, self._peer)
            term.facts.drained = broker.image.drained
            try:
                await term.begin(broker.image.suspects)
            except ApiError as error:
                return self._not_elected(error)
            self._term = term
            self.known.id = broker.broker_id
            if broker.image.drained:
                self._look_again()
            if self._store.shared:
                self._watches.elected()
            return
        self.known.found(await catalog.brokers(), await catalog.controller())

    def _peer(self, broker: BrokerId, facts: ClusterFacts) -> OrderTaker | None:
        return self.applier if broker == self.broker.broker_id else self._peers(broker, facts)

    def _resign(self) -> None:
        """End the term: another broker may be the controller by now."""
        if self._term is not None:
            _logger.warning("this broker is no longer the controller")
            self._term = self.known.id = None
        self._catalog.resign()
        self._peers.close()

    def _not_elected(self, error: ApiError) -> None:
        """End the term and look again if another controller was elected meanwhile."""
        if error.code is not ErrorCode.NOT_CONTROLLER:
            raise error
        self._resign()
        self._look_again()

    def _lost(self) -> None:
        self._resign()
        self.known.id = None

    def _back(self) -> None:
        """Read settings, brokers and controller again, as changes may have been missed.

        Called when the session with the metadata store is re-established or has expired.
        """
        self._watches.missed()
        self._look_again()

    def _look_again(self) -> None:
        """Look up registrations and controller in the store soon; several calls cause one look."""
        self._again = True
        if self._reaction is None:
            self._reaction = asyncio.get_running_loop().create_task(self._react())

    async def _react(self) -> None:
        try:
            while self._again:
                self._again = False
                try:
                    if self._term is not None:  # a task that waits for a dead broker holds the lock
                        self._peers.keep(await self._catalog.brokers())
                    async with self._change:
                        await self._take_late()
                        await self._look()
                except (StoreError, ConfigError) as error:  # later events are still handled
                    if self._term is None:
                        self.known.id = None
                    log_failure(_logger, "metadata store", error)
                except ApiError as error:
                    self._not_elected(error)
        finally:
            self._reaction = None

    def _answered_late(self, broker: BrokerId, orders: Orders, failed: Failed) -> None:
        self._late.append((broker, orders, failed))
        self._late_leaders.answered(orders, failed)
        self._look_again()

    async def _take_late(self) -> None:
        late, self._late = self._late, []
        for answer in late:
            if self._term is not None:
                await self._term.answered_late(*answer)

    async def _look(self) -> None:
        epoch = await self.registration.epoch()
        if epoch is None:  # session expired: its leaderships are void
            self._resign()
            epoch = await self.registration.announce_again()
        self.applier.broker_epoch = epoch
        term = self._term
        if term is not None and await self._catalog.holds_controller():
            await term.brokers_changed()
            term.facts.drained = self.broker.image.drained
            if term.facts.drained and self._term is term:
                await term.carry_out(BrokersDrained())
            return
        self._resign()
        await self._stand()

    def _picture_changed(self, delta: ImageDelta, structural: bool) -> None:
        if self._term is not None:
            self._term.configs_changed(delta)
            if self._term.facts.drained != self.broker.image.drained:
                self._look_again()

    def not_controller(self) -> ApiError | None:
        """Return the refusal of requests to the controller; None: this broker is the controller."""
        return self.known.refusal() if self._term is None else None

    async def carry_out(self, event: Event) -> Result:
        """Decide, write and order an event; return refused and failed partitions.

        ApiError: NOT_CONTROLLER, and UNKNOWN_SERVER_ERROR if the store is unreachable.
        """
        return await self.in_term(lambda term: term.carry_out(event))

    async def in_term(self, work: Callable[[ControllerTerm], Awaitable[T]]) -> T:
        """Run `work` in the present term, after earlier calls, even if the caller is cancelled."""
        return await self._in_turn(lambda: self._done(work))

    async def _in_turn(self, work: Callable[[], Awaitable[T]]) -> T:
        async def in_turn() -> T:
            async with self._change:
                return await work()

        return await carried_on(in_turn())

    async def _decided(self, event: Event) -> Result:
        return await self._done(lambda term: term.carry_out(event))

    async def _done(self, work: Callable[[ControllerTerm], Awaitable[T]]) -> T:
        try:
            return await work(self._present_term())
        except StoreError as error:
            raise store_failed(error) from error
        except ApiError as error:
            if error.code is ErrorCode.NOT_CONTROLLER:
                self._resign()
            raise

    def _present_term(self) -> ControllerTerm:
        if self._term is None:
            raise self.known.refusal()
        return self._term

    async def create_topics(
        self,
        wanted: Sequence[NewTopic],
        *,
        validate_only: bool = False,
        spend: Spend = freely,
        wait_seconds: float = 0.0,
    ) -> list[TopicInfo | ApiError]:
        """Create topics as `ControllerPort` says. `validate_only`: the result has ids of zeros."""

        async def create() -> list[TopicInfo | ApiError | Unmade]:
            if refusal := self.not_controller():
                return [refusal] * len(wanted)
            return await self._topics.create(wanted, spend, validate_only=validate_only)

        deadline = asyncio.get_running_loop().time() + wait_seconds
        with self._late_leaders.listening() as heard:
            return await heard.completed(await self._in_turn(create), deadline)

    async def delete_topics(
        self, names: Sequence[str], *, spend: Spend = freely, ids: TopicIds = MappingProxyType({})
    ) -> dict[str, ApiError | None]:
        """Delete topics as `ControllerPort` says, those in `ids` only if they have these ids."""

        async def delete() -> dict[str, ApiError | None]:
            if refusal := self.not_controller():
                return dict.fromkeys(names, refusal)
            return await self._topics.delete(names, spend, ids)

        return await self._in_turn(delete)

    async def create_partitions(
        self,
        name: str,
        count: int,
        assignments: Sequence[Sequence[int]] | None = None,
        *,
        validate_only: bool = False,
        spend: Spend = freely,
    ) -> None:
        """Add partitions to topic `name`, up to `count` in all. Raises ApiError."""

        async def grow() -> None:
            self._present_term()
            await self._topics.grow(name, count, assignments, spend, validate_only=validate_only)

        await self._in_turn(grow)

    async def auto_create(
        self, names: Iterable[str], *, spend: Spend = freely
    ) -> dict[str, ApiError | None]:
        """Create topics that clients asked about, as configured; None: the topic exists now."""
        return await self._auto_creation.auto_create(names, spend=spend)

    async def ensure_internal_topic(self, name: str) -> TopicInfo:
        """Create the internal topic with its own settings if it is missing. Raises ApiError."""
        return await self._auto_creation.ensure_internal_topic(name)

    async def _create_one(self, wanted: NewTopic, spend: Spend) -> TopicInfo | ApiError:
        (outcome,) = await self.create_topics([wanted], spend=spend)
        return outcome

    async def next_producer_id(self) -> int:
        """Return a producer id that is unique in the cluster. Raises ApiError."""
        return await self._producer_ids.next()

    async def reserve_producer_ids(self, broker: BrokerId) -> ProducerIdBlock:
        """Reserve a block of producer ids for a broker. Raises ApiError."""
        try:
            return await self._catalog.reserve_producer_ids(broker, PRODUCER_ID_BLOCK_SIZE)
        except StoreError as error:
            raise store_failed(error) from error
