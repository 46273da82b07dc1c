"""The controller: what topics there are, who leads them, how they are configured.

Decides on the present picture, writes the store, opens or drops logs, then shows the new picture:
in that order, so that a topic that was answered for is there and usable, and a topic that clients
can see no longer is really going. One change at a time.

Works through `world.store.Store` only: a cluster's ZooKeeper and one broker's SQLite are alike.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from headrace.broker.broker import Broker
from headrace.broker.metadata_image import Endpoint, ImageDelta, TopicInfo
from headrace.broker.producer_ids import PRODUCER_ID_BLOCK_SIZE
from headrace.cluster.adoption import adopt
from headrace.cluster.catalog import Catalog
from headrace.cluster.settings import internal_topics
from headrace.cluster.settings.entity_settings import store_failed
from headrace.cluster.settings.internal_topics import internal_config
from headrace.cluster.settings.runtime_settings import Settings
from headrace.cluster.stored_topic import StoredTopic
from headrace.cluster.topic_creation import NewTopic, TopicPlanner
from headrace.cluster.znodes import Registration
from headrace.config.log_config import LogConfig
from headrace.model.errors import ApiError, ConfigError, ErrorCode
from headrace.model.invariant import invariant
from headrace.model.nouns import INTERNAL_TOPICS, TopicPartition
from headrace.ports.store import NodeExists, Store, StoreError
from headrace.posix.awaiting import called_back

_logger = logging.getLogger(__name__)

OPENED_PER_TURN = 10
PREPARED_AT_ONCE = 100
"""New logs whose files are made in one go, on a thread."""


Spend = Callable[[int], None]
"""Told how many partitions are about to be created or deleted; ApiError refuses (a quota)."""


def _freely(partitions: int) -> None:
    """Nobody counts."""


class Controller:
    """This broker's part in deciding. Every method runs on the deciding thread."""

    def __init__(self, broker: Broker, store: Store) -> None:
        """Decide for `broker` through an open store; `start` before anything else."""
        self.broker = broker
        self._catalog = Catalog(store)
        self._change = asyncio.Lock()
        self.settings = Settings(broker, self._catalog, self._change)
        """Describes and alters what topics and brokers are told."""
        self._refill = asyncio.Lock()

    # --- life ----------------------------------------------------------------------------------

    async def log_configs(self) -> Callable[[TopicPartition], LogConfig]:
        """With which settings to load a partition's log: its topic's, before `start`.

        Of topics that the store does not know (a real Kafka's) the broker's, or those that internal
        topics are made with.
        """
        await self._catalog.prepare()
        await self.settings.load()
        stored = {
            name: self.settings.log_config(name, overrides)
            for name, overrides in (await self._catalog.topic_configs()).items()
        }
        own = self.broker.config
        for name in INTERNAL_TOPICS - stored.keys():
            stored[name] = self.settings.log_config(name, internal_config(name, own))
        default = self.settings.log_config("", {})
        return lambda partition: stored.get(partition.topic, default)

    async def start(self, endpoints: Sequence[Endpoint]) -> None:
        """Join: register, become controller, take up every topic of the store and of the disk.

        The broker's log directories are loaded, with what `log_configs` said.
        `endpoints` is what clients are told of us. ConfigError where we may not join: the broker's
        id is taken, or store and log directories belong to different clusters.
        """
        broker, catalog = self.broker, self._catalog
        clock = broker.clock
        await catalog.prepare()
        await catalog.cluster_id(broker.cluster_id, broker.config.log_dirs)
        rack = broker.config.broker_rack
        await catalog.register(
            broker.broker_id, Registration(tuple(endpoints), rack, clock.wall_ms())
        )
        if not await catalog.elect(broker.broker_id, clock.wall_ms()):
            raise ConfigError("another controller holds the metadata store")
        await self.settings.load()
        topics = await catalog.topics()
        for name in await catalog.deletions():
            found = [one.partition for one in broker.found() if one.topic == name]
            if not await self._drop(name, found):
                _logger.error("topic %s cannot be deleted yet: a log directory has failed", name)
            topics.pop(name, None)
        led = await adopt(catalog, broker, topics)
        brokers = await catalog.brokers()
        await self._lead(led)
        shown = [topic.shown() for topic in led]
        broker.publish(ImageDelta(shown, brokers=brokers, controller_id=broker.broker_id))

    async def stop(self) -> None:
        """Leave: our ephemeral nodes go. The broker's logs are closed by `Broker.stop`."""
        async with self._change:
            await self._catalog.store.close()

    # --- topics --------------------------------------------------------------------------------

    async def create_topics(
        self, wanted: Sequence[NewTopic], *, validate_only: bool = False, spend: Spend = _freely
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
            planner = TopicPlanner(self.broker.image, self.broker.config)
            outcome: list[TopicInfo | ApiError] = []
            stored: list[StoredTopic] = []
            for one in wanted:
                try:
                    whole = internal_topics.completed(one, self.broker)
                    planned = planner.plan(whole)
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
                failed = await self._store_and_lead(stored)
                outcome = [
                    failed.get(one.name, one) if isinstance(one, TopicInfo) else one
                    for one in outcome
                ]
            return outcome

    async def _store_and_lead(self, topics: Sequence[StoredTopic]) -> dict[str, ApiError]:
        """Make planned topics real; returns those whose logs could not be made."""
        try:
            self.broker.check_writable()
            await self._catalog.add_topics(topics)
        except ApiError as error:
            return dict.fromkeys((topic.name for topic in topics), error)
        except NodeExists:
            pending = ApiError(
                ErrorCode.TOPIC_ALREADY_EXISTS, "a topic of that name is still being deleted"
            )
            return dict.fromkeys((topic.name for topic in topics), pending)
        except StoreError as error:
            return dict.fromkeys((topic.name for topic in topics), store_failed(error))
        failed = await self._lead(topics)
        self.broker.publish(ImageDelta([topic.shown() for topic in topics]))
        return failed

    async def delete_topics(
        self, names: Sequence[str], *, spend: Spend = _freely
    ) -> dict[str, ApiError | None]:
        """Delete topics, each for itself: they are gone for clients, and for good, on return."""
        return await asyncio.shield(self._delete_topics(names, spend))

    async def _delete_topics(
        self, names: Sequence[str], spend: Spend
    ) -> dict[str, ApiError | None]:
        async with self._change:
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
            if not going:
                return outcome
            try:
                # Durable before anything is dropped: a restart goes on with it, and never takes
                # the half-deleted directories for a topic to adopt.
                await self._catalog.begin_deletion(going)
                counts = {name: len(image.topics[name].partitions) for name in going}
                self.broker.publish(ImageDelta(removed=going))
                for name, count in counts.items():
                    await self._drop(name, range(count))
            except StoreError as error:
                outcome |= dict.fromkeys(going, store_failed(error))
            return outcome

    async def create_partitions(
        self,
        name: str,
        count: int,
        assignments: Sequence[Sequence[int]] | None = None,
        *,
        validate_only: bool = False,
        spend: Spend = _freely,
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
            image = self.broker.image
            planner = TopicPlanner(image, self.broker.config)
            added = planner.plan_growth(name, count, assignments)
            spend(len(added))
            if validate_only:
                return
            self.broker.check_writable()
            topic = image.topics[name]
            first = len(topic.partitions)
            stored = StoredTopic.grown(topic, added)
            try:
                await self._catalog.add_partitions(stored, first)
            except StoreError as error:
                raise store_failed(error) from error
            failed = await self._lead([stored])
            grown = replace(topic, partitions=topic.partitions + stored.shown().partitions[first:])
            self.broker.publish(ImageDelta([grown]))
            if name in failed:
                raise failed[name]

    async def auto_create(
        self, names: Iterable[str], *, spend: Spend = _freely
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
        """The internal topic, created with its own settings where it is missing; ApiError.

        A topic that is there keeps its number of partitions whatever the configuration says.
        """
        invariant(name in INTERNAL_TOPICS, f"{name} is no internal topic")
        return await self._create_or_find(internal_topics.new_topic(name, self.broker))

    async def _create_or_find(self, wanted: NewTopic, spend: Spend = _freely) -> TopicInfo:
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

    # --- producer ids --------------------------------------------------------------------------

    async def next_producer_id(self) -> int:
        """A producer id that was never given before, in the whole cluster; ApiError."""
        ids = self.broker.producer_ids
        while (taken := ids.take()) is None:
            async with self._refill:
                if ids.empty:
                    try:
                        block = await self._catalog.reserve_producer_ids(
                            self.broker.broker_id, PRODUCER_ID_BLOCK_SIZE
                        )
                    except StoreError as error:
                        raise store_failed(error) from error
                    ids.refill(block.first, block.last)
        return taken

    # --- leading -------------------------------------------------------------------------------

    async def _lead(self, topics: Sequence[StoredTopic]) -> dict[str, ApiError]:
        """Open all partitions that we lead and have not open; what failed, by topic.

        The loop has its turn now and then: there may be thousands.
        """
        broker = self.broker
        failed: dict[str, ApiError] = {}
        opened = 0
        for topic in topics:
            config = self.settings.log_config(topic.name, topic.config)
            led = [
                index
                for index, state in topic.states.items()
                if state.leader == broker.broker_id and (topic.name, index) not in broker.partitions
            ]
            for at in range(0, len(led), PREPARED_AT_ONCE):
                some = led[at : at + PREPARED_AT_ONCE]
                prepare = partial(
                    broker.prepare_partitions, topic.name, some, topic.topic_id, config
                )
                await called_back(prepare)
            for index, state in topic.states.items():
                if state.leader != broker.broker_id or (topic.name, index) in broker.partitions:
                    continue
                try:
                    broker.open_partition(
                        topic.name, index, topic.topic_id, config, state.leader_epoch
                    )
                except ApiError as error:
                    _logger.error("%s-%d is offline: %s", topic.name, index, error)
                    failed[topic.name] = error
                opened += 1
                if opened % OPENED_PER_TURN == 0:
                    await asyncio.sleep(0)
        return failed

    async def _drop(self, name: str, partitions: Iterable[int]) -> bool:
        """Delete a topic's logs for good, then what the store says of it.

        False where a failed directory holds some: the store's mark stays, and the next start with
        a working disk goes on. Forgotten, those logs would come back as a topic to adopt.
        """
        gone = [self.broker.drop_partition(name, index) for index in partitions]
        try:
            await called_back(self.broker.sync_directories)
        except OSError as error:
            _logger.error("deletion of %s may not be durable: %s", name, error)
            return False
        if all(gone):
            await self._catalog.end_deletion(name)
        return all(gone)
