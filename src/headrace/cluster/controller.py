"""What a broker asks of the cluster's controller, and its own part in being it.

Whoever holds `/controller` in the store is the controller (`controller_term`); the others watch it,
and take its orders (`applier`). What only the controller may do is answered NOT_CONTROLLER
elsewhere. One change at a time.

Works through `ports.store.Store` only: a cluster's ZooKeeper and one broker's SQLite are alike.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from headrace.broker.broker import Broker
from headrace.broker.metadata_image import Endpoint, ImageDelta, TopicInfo
from headrace.cluster import znodes
from headrace.cluster.applier import Applier
from headrace.cluster.catalog import Catalog
from headrace.cluster.controller_port import ReplicasPort, Spend, freely
from headrace.cluster.controller_term import ControllerTerm, Peers, Result
from headrace.cluster.events import Event, TopicGrown, TopicsCreated, TopicsDeleted
from headrace.cluster.orders import OrderTaker
from headrace.cluster.producer_id_blocks import ProducerIdBlocks
from headrace.cluster.settings import internal_topics
from headrace.cluster.settings.entity_settings import store_failed
from headrace.cluster.settings.runtime_settings import Settings
from headrace.cluster.stored_topic import StoredTopic
from headrace.cluster.topic_creation import NewTopic, TopicPlanner
from headrace.cluster.znodes import Registration
from headrace.config.log_config import LogConfig
from headrace.model.errors import ApiError, ConfigError, ErrorCode
from headrace.model.invariant import invariant
from headrace.model.nouns import INTERNAL_TOPICS, BrokerId, TopicPartition
from headrace.ports.store import SessionEvents, Store, StoreError

if TYPE_CHECKING:
    from headrace.cluster.duties import Duties

_logger = logging.getLogger(__name__)


def _nobody(broker: BrokerId) -> None:
    """Do nothing: there is no way to another broker."""


class Controller:
    """This broker's part in deciding: `controller_port.ControllerPort`, and what the broker asks.

    Every method runs on the deciding thread.
    """

    def __init__(
        self,
        broker: Broker,
        store: Store,
        session: SessionEvents,
        *,
        peers: Peers = _nobody,
    ) -> None:
        """Take part through an open store; `start` before anything else.

        `session`: what the store was opened with. `peers`: how orders reach other brokers.
        """
        self.broker = broker
        self._store = store
        self._catalog = Catalog(store)
        self._change = asyncio.Lock()
        self.settings = Settings(broker, self._catalog, self._change)
        """Describes and alters what topics and brokers are told."""
        self.applier = Applier(broker, self.settings.log_config)
        """Where orders for this broker go, whoever the controller is."""
        self._peers = peers
        self._term: ControllerTerm | None = None
        self._registration = Registration(())
        self._producer_ids = ProducerIdBlocks(broker, self._catalog)
        self._unwatch: list[Callable[[], None]] = []
        self._reaction: asyncio.Task[None] | None = None
        self._again = False
        session.lost = self._resign
        session.expired = session.reconnected = self._back
        broker.image.observers.append(self._picture_changed)

    @property
    def replicas(self) -> ReplicasPort:
        """Elections, and moves of partitions."""
        return self._duties.replicas

    @cached_property
    def _duties(self) -> "Duties":
        from headrace.cluster.duties import Duties

        parts = (self.broker, self._catalog, self.settings, self.carry_out)
        return Duties(*parts, lambda: self._present_term().facts, self._change)

    # --- life ----------------------------------------------------------------------------------

    async def log_configs(self) -> Callable[[TopicPartition], LogConfig]:
        """Return with which settings to load a partition's log: its topic's, before `start`."""
        await self._catalog.prepare()
        await self.settings.load()
        return await self.settings.log_configs()

    async def start(self, endpoints: Sequence[Endpoint]) -> None:
        """Join: register, and become the controller where nobody is.

        The broker's log directories are loaded, with what `log_configs` said. With a store of our
        own every topic of the store and of the disk is led when this returns; in a cluster, what
        the controller says is. `endpoints` is what clients are told of us. ConfigError where we
        may not join: the broker's id is taken, or the log directories are another cluster's.
        """
        broker, catalog = self.broker, self._catalog
        await catalog.prepare()
        await catalog.cluster_id(broker.cluster_id, broker.config.log_dirs)
        rack, now_ms = broker.config.broker_rack, broker.clock.wall_ms()
        self._registration = Registration(tuple(endpoints), rack, now_ms)
        self.applier.broker_epoch = await catalog.register(broker.broker_id, self._registration)
        await self.settings.load()
        if self._store.shared:
            for path in (znodes.CONTROLLER, znodes.BROKER_IDS):
                self._unwatch.append(self._store.watch(path, lambda _: self._look_again()))
            self._unwatch.append(self._duties.stop)
            self._duties.start()
        async with self._change:
            await self._stand()

    async def stop(self) -> None:
        """Leave: our ephemeral nodes go. The broker's logs are closed by `Broker.stop`."""
        for cancel in self._unwatch:
            cancel()
        async with self._change:
            self._term = None
            await self._store.close()

    @property
    def is_controller(self) -> bool:
        """Whether this broker decides for the cluster."""
        return self._term is not None

    async def _stand(self) -> None:
        """Become the controller where nobody is; else show clients who is."""
        broker, catalog = self.broker, self._catalog
        now_ms = broker.clock.wall_ms()
        if await catalog.elect(broker.broker_id, now_ms) or await catalog.resume():
            term = ControllerTerm(broker, catalog, self._peer)
            await term.begin()
            self._term = term
            if self._store.shared:
                self._duties.elected()
            return
        brokers, controller = await catalog.brokers(), await catalog.controller()
        if not broker.image.brokers:  # its orders, which tell more, may have come before
            broker.publish(ImageDelta(brokers=brokers, controller_id=controller))

    def _peer(self, broker: BrokerId) -> OrderTaker | None:
        return self.applier if broker == self.broker.broker_id else self._peers(broker)

    # --- what others do ------------------------------------------------------------------------

    def _resign(self) -> None:
        """Decide nothing that somebody else may be deciding by now."""
        if self._term is not None:
            _logger.warning("this broker is the controller no longer")
            self._term = None
            self._catalog.resign()

    def _back(self) -> None:
        """Look for what may have changed while the store was not heard of."""
        self._duties.missed()
        self._look_again()

    def _look_again(self) -> None:
        """Have the store looked at: brokers or the controller may be others. Once for many."""
        self._again = True
        if self._reaction is None:
            self._reaction = asyncio.get_running_loop().create_task(self._react())

    async def _react(self) -> None:
        try:
            while self._again:
                self._again = False
                async with self._change:
                    await self._look()
        except (StoreError, ConfigError) as error:
            _logger.error("metadata store: %s: %s", type(error).__name__, error)
        finally:
            self._reaction = None

    async def _look(self) -> None:
        me, catalog = self.broker.broker_id, self._catalog
        epoch = await catalog.broker_epoch(me)
        if epoch is None:  # our session has expired: whoever led in its name must not
            self._resign()
            epoch = await catalog.register(me, self._registration)
        self.applier.broker_epoch = epoch
        if self._term is not None and await catalog.holds_controller():
            await self._term.brokers_changed()
            return
        self._resign()
        await self._stand()

    def _picture_changed(self, delta: ImageDelta, structural: bool) -> None:
        if self._term is not None:
            for topic in delta.topics:
                stored = self._term.facts.topics.get(topic.name)
                if stored is not None:
                    stored.config = topic.config

    async def carry_out(self, event: Event) -> Result:
        """Have an event decided on, written and ordered; what was refused, and what failed.

        ApiError: NOT_CONTROLLER, and UNKNOWN_SERVER_ERROR where the store cannot be reached.
        """
        return await asyncio.shield(self._carry_out(event))

    async def _carry_out(self, event: Event) -> Result:
        async with self._change:
            return await self._decided(event)

    async def _decided(self, event: Event) -> Result:
        try:
            return await self._present_term().carry_out(event)
        except StoreError as error:
            raise store_failed(error) from error
        except ApiError as error:
            if error.code is ErrorCode.NOT_CONTROLLER:
                self._resign()
            raise

    def _present_term(self) -> ControllerTerm:
        if self._term is None:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "this is not the controller")
        return self._term

    # --- topics --------------------------------------------------------------------------------

    async def create_topics(
        self, wanted: Sequence[NewTopic], *, validate_only: bool = False, spend: Spend = freely
    ) -> list[TopicInfo | ApiError]:
        """Create topics, each for itself; the answers in the order asked.

        A created topic can be written to when this returns. `validate_only`: what would be created,
        with an id of zeros. Names must not repeat.
        """
        return await asyncio.shield(self._create_topics(wanted, validate_only, spend))

    async def _create_topics(
        self, wanted: Sequence[NewTopic], validate_only: bool, spend: Spend
    ) -> list[TopicInfo | ApiError]:
        async with self._change:
            if self._term is None:
                return [ApiError(ErrorCode.NOT_CONTROLLER) for _ in wanted]
            planner = TopicPlanner(self.broker.image, self.broker.config)
            outcome: list[TopicInfo | ApiError] = []
            stored: list[StoredTopic] = []
            for new_topic in wanted:
                try:
                    planned = planner.plan(internal_topics.completed(new_topic, self.broker))
                    spend(len(planned.replicas))
                except ApiError as error:
                    outcome.append(error)
                    continue
                planner.take(planned)
                topic_id = bytes(16) if validate_only else self.broker.random.uuid()
                topic = StoredTopic.of_plan(planned, topic_id)
                stored.append(topic)
                outcome.append(topic.shown())
            if stored and not validate_only:
                failed = await self._make_real(stored)
                outcome = [
                    failed.get(topic.name, topic) if isinstance(topic, TopicInfo) else topic
                    for topic in outcome
                ]
            return outcome

    async def _make_real(self, topics: Sequence[StoredTopic]) -> dict[str, ApiError]:
        """Make planned topics real; returns those that were refused or have no log."""
        try:
            self.broker.check_writable()
            result = await self._decided(TopicsCreated(topics))
        except ApiError as error:
            return dict.fromkeys((topic.name for topic in topics), error)
        failed = {key.topic: ApiError(code) for key, code in result.failed.items()}
        pending = "a topic of that name is still being deleted"
        return failed | {key.topic: ApiError(code, pending) for key, code in result.refused.items()}

    async def delete_topics(
        self, names: Sequence[str], *, spend: Spend = freely
    ) -> dict[str, ApiError | None]:
        """Delete topics, each for itself: they are gone for clients, and for good, on return."""
        return await asyncio.shield(self._delete_topics(names, spend))

    async def _delete_topics(
        self, names: Sequence[str], spend: Spend
    ) -> dict[str, ApiError | None]:
        async with self._change:
            if self._term is None:
                return {name: ApiError(ErrorCode.NOT_CONTROLLER) for name in names}
            image = self.broker.image
            outcome: dict[str, ApiError | None] = {}
            for name in names:
                try:
                    if name not in image.topics:
                        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                    spend(len(image.topics[name].partitions))
                    outcome[name] = None
                except ApiError as error:
                    outcome[name] = error
            going = [name for name, error in outcome.items() if error is None]
            if going:
                try:
                    # Durable before anything is dropped: a restart goes on with it, and never takes
                    # the half-deleted directories for a topic to adopt.
                    await self._decided(TopicsDeleted(going))
                except ApiError as error:
                    outcome |= dict.fromkeys(going, error)
            return outcome

    async def create_partitions(
        self,
        name: str,
        count: int,
        assignments: Sequence[Sequence[int]] | None = None,
        *,
        validate_only: bool = False,
        spend: Spend = freely,
    ) -> None:
        """Grow topic `name` to `count` partitions in all; ApiError."""
        growing = self._create_partitions(name, count, assignments, validate_only, spend)
        await asyncio.shield(growing)

    async def _create_partitions(
        self,
        name: str,
        count: int,
        assignments: Sequence[Sequence[int]] | None,
        validate_only: bool,
        spend: Spend,
    ) -> None:
        async with self._change:
            self._present_term()
            image = self.broker.image
            added = TopicPlanner(image, self.broker.config).plan_growth(name, count, assignments)
            spend(len(added))
            if validate_only:
                return
            self.broker.check_writable()
            result = await self._decided(
                TopicGrown(name, len(image.topics[name].partitions), added)
            )
            for code in (*result.refused.values(), *result.failed.values()):
                raise ApiError(code)

    async def auto_create(
        self, names: Iterable[str], *, spend: Spend = freely
    ) -> dict[str, ApiError | None]:
        """Create topics that clients ask about, as configured; None: it is there now.

        Internal topics are made with their own settings. UNKNOWN_TOPIC_OR_PARTITION where
        `auto.create.topics.enable` is off, INVALID_TOPIC_EXCEPTION for names that are none.
        """
        outcome: dict[str, ApiError | None] = {}
        for name in names:
            if name not in INTERNAL_TOPICS and not self.broker.config.auto_create_topics_enable:
                outcome[name] = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                continue
            try:
                await self._create_or_find(internal_topics.new_topic(name, self.broker), spend)
                outcome[name] = None
            except ApiError as error:
                outcome[name] = error
        return outcome

    async def ensure_internal_topic(self, name: str) -> TopicInfo:
        """Create the internal topic with its own settings where it is missing, and return it.

        ApiError.
        A topic that is there keeps its number of partitions whatever the configuration says.
        """
        invariant(name in INTERNAL_TOPICS, f"{name} is no internal topic")
        return await self._create_or_find(internal_topics.new_topic(name, self.broker))

    async def _create_or_find(self, wanted: NewTopic, spend: Spend = freely) -> TopicInfo:
        found = self.broker.image.topics.get(wanted.name)
        if found is not None:
            return found
        (outcome,) = await self.create_topics([wanted], spend=spend)
        if isinstance(outcome, TopicInfo):
            return outcome
        if outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise outcome
        found = self.broker.image.topics.get(wanted.name)
        if found is None:  # on its way out, or gone again at once: clients ask once more
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{wanted.name} is being deleted")
        return found  # somebody was faster

    async def next_producer_id(self) -> int:
        """Return a producer id that was never given before, in the whole cluster; ApiError."""
        return await self._producer_ids.next()
