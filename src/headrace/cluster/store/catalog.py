"""`Catalog`: the cluster's facts in the store, read and written as Kafka's znodes.

Each write of the controller is one `multi` that also checks that it still is the controller.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from headrace.broker.metadata_image import BrokerInfo
from headrace.cluster.store import znodes
from headrace.cluster.store.config_store import ConfigStore
from headrace.cluster.store.stored_doubts import Registered
from headrace.cluster.store.stored_topic import StoredTopic
from headrace.cluster.store.znodes import ProducerIdBlock
from headrace.model.errors import ApiError, ConfigError, ErrorCode
from headrace.model.nouns import BrokerId
from headrace.model.protocols import feature_of
from headrace.ports.store import (
    BadVersion,
    Check,
    Create,
    Delete,
    Node,
    NodeExists,
    NoNode,
    Operation,
    Set,
    Store,
)

_logger = logging.getLogger(__name__)

OPERATIONS_PER_MULTI = 1000
"""Operations in one transaction of the store; ZooKeeper refuses requests over 1 MiB."""

NEVER_VERSION = 1 << 31
"""A version that no node has."""


class StateKey(NamedTuple):
    """A partition whose state node is read."""

    topic: str
    partition: int


class Catalog:
    """The facts of a cluster in the store, in Kafka's layout. Methods may raise StoreError."""

    def __init__(self, store: Store) -> None:
        """Create the catalog on an open store."""
        self.store = store
        self.configs = ConfigStore(store)
        """Settings of brokers, topics, groups and clients."""
        self.controller_epoch = 0
        self._epoch_check: Check | None = None

    async def prepare(self) -> None:
        """Create the missing persistent paths in one transaction.

        ConfigError: a migration into this store has begun and is not complete.
        """
        wanted = {path: b"" for root in znodes.ROOTS for path in _with_parents(root)}
        wanted[znodes.CONTROLLER_EPOCH] = b"0"
        wanted[znodes.FEATURE] = znodes.NO_FEATURES
        while True:
            *found, migration = await self.store.get_all([*wanted, znodes.MIGRATION])
            if migration is not None:
                raise ConfigError(
                    "the metadata store has a part of a single broker's metadata only: bring the"
                    " rest, by headrace cluster migrate as before, and start again"
                )
            missing = [
                Create(path, value)
                for (path, value), node in zip(wanted.items(), found, strict=True)
                if node is None
            ]
            if not missing:
                return
            with suppress(NodeExists):  # another broker was faster: see what it left
                await self.store.multi(missing)

    async def cluster_id(self, own: str, log_dirs: Sequence[str]) -> None:
        """Check that the store belongs to cluster `own`; a new store then does.

        ConfigError: it belongs to another cluster. `log_dirs`, where `own` was read, are named in
        it.
        """
        while (found := await self.known_cluster_id()) is None:
            with suppress(NodeExists):  # another broker was faster: see what it left
                value = znodes.encode_cluster_id(own)
                await self.store.create(znodes.CLUSTER_ID, value, parents=True)
        if own != found:
            raise ConfigError(
                f"log.dirs={','.join(log_dirs)} belongs to cluster {own} (meta.properties),"
                f" the metadata store to {found}; name the directories of one cluster"
            )

    async def known_cluster_id(self) -> str | None:
        """Return the id of the cluster that the store belongs to; None: it is new."""
        node = await self._get(znodes.CLUSTER_ID)
        return None if node is None else znodes.decode_cluster_id(node.value)

    async def broker_epoch(self, broker: BrokerId) -> int | None:
        """Return the epoch of a live broker; None: it is not registered."""
        node = await self._get(znodes.broker_path(broker))
        return None if node is None else node.created

    async def holds_controller(self) -> bool:
        """Return whether this session owns `/controller`."""
        node = await self._get(znodes.CONTROLLER)
        return node is not None and node.owner == self.store.session

    async def brokers(self) -> list[BrokerInfo]:
        """Return the live brokers, sorted by id."""
        return [registered.broker for registered in await self.registered()]

    async def registered(self) -> list[Registered]:
        """Return the live brokers, sorted by id, with the doubts in their registrations."""
        found = []
        for name in await self.store.children(znodes.BROKER_IDS):
            path = f"{znodes.BROKER_IDS}/{name}"
            with suppress(NoNode):
                node = await self.store.get(path)
                broker_id = BrokerId(int(name))
                broker = znodes.decode_registration(broker_id, path, node.value, node.created)
                found.append(Registered(broker, znodes.decode_doubts(path, node.value)))
        return sorted(found, key=lambda registered: registered.broker.broker_id)

    async def elect(self, broker: BrokerId, now_ms: int) -> bool:
        """Become the controller if no broker is, under the next controller epoch.

        Return whether it did.
        """
        node = await self.store.get(znodes.CONTROLLER_EPOCH)
        epoch = int(node.value) + 1
        value = znodes.encode_controller(broker, now_ms)
        try:
            await self.store.multi(
                [
                    Create(znodes.CONTROLLER, value, ephemeral=True),
                    Set(znodes.CONTROLLER_EPOCH, str(epoch).encode(), node.version),
                ]
            )
        except (NodeExists, BadVersion):
            return False
        self.controller_epoch = epoch
        self._epoch_check = Check(znodes.CONTROLLER_EPOCH, node.version + 1)
        return True

    async def resume(self) -> bool:
        """Continue as the controller if this session still owns `/controller`.

        Return whether it does.
        """
        node = await self.store.get(znodes.CONTROLLER_EPOCH)
        if not await self.holds_controller():
            return False
        self.controller_epoch = int(node.value)
        self._epoch_check = Check(znodes.CONTROLLER_EPOCH, node.version)
        return True

    async def check_controller(self) -> None:
        """Raise ApiError NOT_CONTROLLER if another broker was elected since."""
        node = await self.store.get(znodes.CONTROLLER_EPOCH)
        if self._epoch_check is None or node.version != self._epoch_check.version:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "another broker has become the controller")

    def resign(self) -> None:
        """Make each later `multi` fail, as this broker is not the controller any more."""
        self._epoch_check = Check(znodes.CONTROLLER_EPOCH, NEVER_VERSION)

    async def controller(self) -> BrokerId | None:
        """Return the controller's broker id, or None if there is no controller."""
        node = await self._get(znodes.CONTROLLER)
        return None if node is None else znodes.decode_controller(node.value)

    async def topics(
        self, names: Sequence[str] | None = None, *, passed_over: list[str] | None = None
    ) -> dict[str, StoredTopic]:
        """Return all topics of the store, or those of `names` that exist.

        BadPayload: a node is malformed. If `passed_over` is given, such topics are appended to it
        instead.
        """
        if names is None:
            names = await self.store.children(znodes.TOPICS)
        nodes = await self.store.get_all([znodes.topic_path(name) for name in names])
        configs = await self.store.get_all([znodes.topic_config_path(name) for name in names])
        found: dict[str, StoredTopic] = {}
        wanted: list[StateKey] = []
        for name, node, config in zip(names, nodes, configs, strict=True):
            if node is not None:
                with _passing_over(name, passed_over):
                    found[name] = _decoded(name, node, config)
                    wanted += [StateKey(name, index) for index in found[name].node.partitions]
        paths = [znodes.state_path(*key) for key in wanted]
        for key, path, node in zip(wanted, paths, await self.store.get_all(paths), strict=True):
            if node is not None:
                with _passing_over(key.topic, passed_over):
                    topic = found[key.topic]
                    topic.states[key.partition] = znodes.decode_state(path, node.value)
                    topic.versions[key.partition] = node.version
        return {name: topic for name, topic in found.items() if name not in (passed_over or ())}

    async def topic_configs(
        self, names: Sequence[str] | None = None
    ) -> dict[str, Mapping[str, str]]:
        """Return the settings of each topic in the store, or of `names`. Raises BadPayload."""
        if names is None:
            names = await self.store.children(znodes.TOPICS)
        paths = [znodes.topic_config_path(name) for name in names]
        nodes = await self.store.get_all(paths)
        return {
            name: {} if node is None else znodes.decode_config(path, node.value)
            for name, path, node in zip(names, paths, nodes, strict=True)
        }

    async def config_versions(self, names: Sequence[str]) -> dict[str, int]:
        """Return the node version of each topic's settings, for topics that have settings."""
        nodes = await self.store.get_all([znodes.topic_config_path(name) for name in names])
        return {
            name: node.version for name, node in zip(names, nodes, strict=True) if node is not None
        }

    async def complete_partitions(self, topics: Iterable[StoredTopic]) -> None:
        """Create the parent nodes of missing partition states, which old tools leave out."""
        for topic in topics:
            for index in topic.node.partitions.keys() - topic.states.keys():
                with suppress(NodeExists):
                    path = znodes.partition_path(topic.name, index)
                    await self.store.create(path, b"", parents=True)

    async def give_topic_ids(self, topics: Sequence[StoredTopic]) -> None:
        """Write the nodes of topics that were given an id."""
        await self.multi(
            [
                Set(znodes.topic_path(topic.name), znodes.encode_topic(topic.node))
                for topic in topics
            ]
        )

    async def deletions(self) -> list[str]:
        """Return the topics whose deletion has begun."""
        return await self.store.children(znodes.DELETE_TOPICS)

    async def leave_replicas(
        self, topic: StoredTopic, alive: Collection[BrokerId], suspects: Mapping[BrokerId, int]
    ) -> bool:
        """Leave a deleted topic's replicas to brokers that are down: they delete them at a start.

        `suspects`: brokers that seem to be down, by their epochs; one that is not has its orders
        in sequence. False: the deletion must wait for these brokers. Only the brokers of a
        protocol's own topics delete replicas so, and one that has returned is to be ordered to.
        """
        replicas = {replica for found in topic.node.partitions.values() for replica in found}
        down = replicas.difference(alive)
        if down and not feature_of(topic.name):
            return False
        for broker in down:
            path = f"{znodes.DELETED_REPLICAS}/{broker}/{topic.topic_id.hex()}"
            with suppress(NodeExists):
                await self.store.create(path, topic.name.encode(), parents=True)
        epochs = {broker: await self.broker_epoch(broker) for broker in down}
        return all(epoch in {None, suspects.get(broker)} for broker, epoch in epochs.items())

    async def end_deletion(self, name: str) -> None:
        """Delete a topic's nodes, after all of its logs are deleted."""
        operations: list[Operation] = []
        await self._gather_deletes(znodes.topic_path(name), operations)
        await self._gather_deletes(znodes.topic_config_path(name), operations)
        operations.append(Delete(f"{znodes.DELETE_TOPICS}/{name}"))
        # Children come before their parents: a cut between two multis leaves a tree to go on with.
        for at in range(0, len(operations), OPERATIONS_PER_MULTI):
            await self.multi(operations[at : at + OPERATIONS_PER_MULTI])

    async def reserve_producer_ids(
        self, broker: BrokerId, size: int, *, above: int = -1
    ) -> ProducerIdBlock:
        """Reserve a block of `size` producer ids that were never given, all above `above`."""
        while True:
            try:
                node = await self.store.get(znodes.PRODUCER_ID_BLOCK)
            except NoNode:
                first, version = 0, None
            else:
                first = znodes.decode_producer_ids(node.value).last + 1 if node.value else 0
                version = node.version
            if first <= above:
                first = (above // size + 1) * size
            block = ProducerIdBlock(broker, first, first + size - 1)
            value = znodes.encode_producer_ids(block)
            try:
                if version is None:
                    await self.store.create(znodes.PRODUCER_ID_BLOCK, value)
                else:
                    await self.store.set(znodes.PRODUCER_ID_BLOCK, value, version)
            except (NodeExists, BadVersion):
                continue  # another broker was faster: take the block after its
            return block

    async def multi(self, operations: Sequence[Operation]) -> list[Node | str | None]:
        """Do all operations or none, if this broker is still the controller; else BadVersion.

        Nodes that every broker may write (settings, producer ids) are written without this.
        """
        if self._epoch_check is not None:
            operations = [*operations, self._epoch_check]
            return (await self.store.multi(operations))[:-1]
        return await self.store.multi(operations)

    async def _get(self, path: str) -> Node | None:
        try:
            return await self.store.get(path)
        except NoNode:
            return None

    async def _gather_deletes(self, path: str, operations: list[Operation]) -> None:
        """Append operations that delete a tree, children first; none if it does not exist."""
        try:
            names = await self.store.children(path)
        except NoNode:
            return
        for name in names:
            await self._gather_deletes(f"{path}/{name}", operations)
        operations.append(Delete(path))


def _decoded(name: str, node: Node, config: Node | None) -> StoredTopic:
    topic = znodes.decode_topic(znodes.topic_path(name), node.value)
    path = znodes.topic_config_path(name)
    overrides = {} if config is None else znodes.decode_config(path, config.value)
    return StoredTopic(name, topic, overrides, version=node.version)


@contextmanager
def _passing_over(name: str, passed_over: list[str] | None) -> Iterator[None]:
    """Append a topic with malformed nodes to the list, if there is a list."""
    try:
        yield
    except znodes.BadPayload as error:
        if passed_over is None:
            raise
        _logger.error("topic %s is ignored, mend or delete its node: %s", name, error)
        passed_over.append(name)


def _with_parents(path: str) -> list[str]:
    """Return the path and those above it, the topmost first."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(2, len(parts) + 1)]
