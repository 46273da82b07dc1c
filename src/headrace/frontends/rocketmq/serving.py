"""The broker as RocketMQ's requests see it: topics by their RocketMQ names, groups, permissions."""

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.broker.metadata_image import ImageDelta, TopicInfo
from headrace.frontends.rocketmq.administration.disk_watermark import DiskCleaner, DiskWatermark
from headrace.frontends.rocketmq.administration.stored_configs import GROUPS_MAX, RemotingConfigs
from headrace.frontends.rocketmq.administration.traffic import RequestCounts, Traffic
from headrace.frontends.rocketmq.answers import FORBIDDEN, GROUP_FORBIDDEN, RequestRefused
from headrace.frontends.rocketmq.held.held_topics import HeldTopics
from headrace.frontends.rocketmq.held.own_topics import hold_nothing
from headrace.frontends.rocketmq.pulling.parked_pulls import ParkedPulls
from headrace.frontends.rocketmq.pulling.read_ahead import ReadAhead
from headrace.frontends.rocketmq.sending import QueuedSend, Sending
from headrace.frontends.rocketmq.settings import RemotingSettings
from headrace.model.errors import ApiError, Malformed
from headrace.model.nouns import OFFSETS_TOPIC, TopicPartition
from headrace.operations.context import OperationContext
from headrace.operations.permissions import Caller, Surface
from headrace.ports.deadlines import Deadlines
from headrace.security.authorizer import Operation, Resource, ResourceType
from headrace.security.identity import Identity
from headrace.subscriptions.group_offsets import GroupOffsets, OwnCommits
from headrace.subscriptions.kafka_members import has_kafka_members
from headrace.subscriptions.members import GroupMembers
from headrace.subscriptions.producers import ProducerGroups
from headrace.subscriptions.queue_locks import QueueLocks
from headrace.wire.rocketmq.codes import ResponseCode
from headrace.wire.rocketmq.group_configs import GroupConfig
from headrace.wire.rocketmq.topic_configs import TopicConfig
from headrace.wire.rocketmq.topic_names import (
    GROUP_CHARACTERS_MAX,
    RETRY_PREFIX,
    TOPIC_CHARACTERS_MAX,
    check_name,
    group_of,
    is_own,
    kafka_name,
    rocketmq_name,
)

if TYPE_CHECKING:
    from collections import deque

    from headrace.broker.broker import Broker
    from headrace.broker.partition import Partition
    from headrace.cluster.controller_port import ControllerPort
    from headrace.coordination.coordinators import Coordinators
    from headrace.frontends.rocketmq.call import RemotingCall, RemotingClientSide
    from headrace.frontends.rocketmq.partition_numbers import PartitionNumbers
    from headrace.ports.callbacks import Done
    from headrace.wire.rocketmq.requests import SendRequest
    from headrace.wire.rocketmq.sent_messages import SentMessage

_UNKNOWN_TOPIC = (
    "topic[{}] not exist, apply first please! \n"
    "See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
)


class ServedTopic(NamedTuple):
    """A topic by both names."""

    name: str
    info: TopicInfo
    config: TopicConfig | None = None
    """Its settings; None: the defaults."""

    @property
    def queues(self) -> int:
        """The number of all its queues, also of those that clients do not see."""
        return len(self.info.partitions)

    @property
    def read_queues(self) -> int:
        """The number of queues that consumers read."""
        return self.queues if self.config is None else self.config.read(self.queues)

    @property
    def write_queues(self) -> int:
        """The number of queues to which producers send."""
        return self.queues if self.config is None else self.config.written(self.queues)


class ServedBroker:
    """The dependencies of all requests. On the deciding thread."""

    def __init__(
        self,
        broker: "Broker",
        controller: "ControllerPort",
        coordinators: "Coordinators",
        numbers: "PartitionNumbers",
        configs: RemotingConfigs,
        settings: RemotingSettings,
    ) -> None:
        self.broker = broker
        self.controller = controller
        self.coordinators = coordinators
        self.numbers = numbers
        self.configs = configs
        self.settings = settings
        named = f"MSG_REGION\x01{settings.region}\x02CLUSTER\x01{settings.cluster}\x02"
        self.added_properties = f"{named}TRACE_ON\x01true\x02".encode()
        """The properties that each pulled message gets, and no stored one has."""
        self.members: GroupMembers[RemotingClientSide] = GroupMembers()
        self.parked, self.read_ahead = ParkedPulls(), ReadAhead()
        self.clients: dict[str, RemotingClientSide] = {}
        """The newest connection of each client, by the id in its heartbeats."""
        self.locks = QueueLocks()
        self.commits = cache(lambda: OwnCommits(coordinators.groups))
        """The group coordinator, made by its first use."""
        self.offsets = GroupOffsets(self.commits, broker.clock)
        self.deadlines = Deadlines(broker.clock)
        self.sending = Sending(broker, self.deadlines)
        self.producers: ProducerGroups[RemotingClientSide] = ProducerGroups()
        self.held = HeldTopics(
            broker,
            controller,
            numbers,
            self.store,
            self.work,
            settings.asking,
            settings.topic_config,
        )
        self.watermark = DiskWatermark(broker, settings.disk_used_percent_max)
        self.cleaner = DiskCleaner(broker, settings.cleaning, self._may_clean)
        self.traffic = Traffic(broker, numbers)
        self.counts = RequestCounts()
        self.waiting_sends: dict[str, deque[tuple[RemotingCall, SendRequest]]] = {}
        """By topic: sends that wait until it exists and its partitions have numbers, in order."""
        self.making = asyncio.Lock()
        """Held while a group's topic is created."""
        self.writes_wiped = False
        """Whether routes show no queue to producers, by WIPE_WRITE_PERM_OF_BROKER."""
        self.sent_fields = {"TRACE_ON": "true", "MSG_REGION": settings.region}
        """Fields of each answer to a send."""
        self.started_ms = broker.clock.wall_ms()
        self.name = f"headrace-{broker.broker_id}"
        """The name of this broker in routes and in clients' queues."""
        self._working: set[asyncio.Task[None]] = set()
        broker.image.observers.append(self._image_changed)
        hold_nothing(broker)

    def _image_changed(self, delta: ImageDelta, structural: bool) -> None:
        if delta.removed:
            gone = self.numbers.forget(set(self.broker.image.topics_by_id))
            self.offsets.forget_deleted(self.broker.image.topics)
            self.work(self._forget_deleted(gone))
        for topic in delta.topics:
            name = rocketmq_name(topic.name)
            if name is not None and name.startswith(RETRY_PREFIX):
                self.parked.wake(name.removeprefix(RETRY_PREFIX))
            if self.numbers.known(topic) is None:
                self._number_changed(topic, name)

    def _number_changed(self, topic: TopicInfo, name: str | None) -> None:
        """Assign numbers to new partitions that groups may wait for, so the time is right."""
        if not self.numbers.is_used(topic):
            if name is None or not self.members.is_subscribed(name):
                return
            if self.traffic.stored_total(topic.name, len(topic.partitions)):
                return
            self.numbers.note_created(topic)
        self.work(self._number(topic))

    def number_soon(self, topic: ServedTopic) -> None:
        """Have a topic that a group begins to use count queues as added from now on."""
        if self.numbers.known(topic.info) is None:
            self.work(self._number(topic.info))

    async def _number(self, topic: TopicInfo) -> None:
        with suppress(ApiError):
            await self.numbers.assigned(topic)

    async def _forget_deleted(self, gone: set[bytes]) -> None:
        """Delete settings and partition numbers of topics that do not exist any more."""
        await self.numbers.delete(gone)
        for key in list(self.configs.topics):
            if bytes.fromhex(key) not in self.broker.image.topics_by_id:
                with suppress(ApiError):  # the next start deletes it; an id is never given again
                    await self.configs.topics.remove(key)

    def _may_clean(self, place: TopicPartition) -> bool:
        """Return whether unexpired messages may be deleted: of topics that clients created."""
        info = self.broker.image.topics.get(place.topic)
        if info is None or info.internal:
            return False
        config = self.config_of(info)
        return config is not None and config.made

    async def ready(self) -> None:
        """Load settings, and create the coordinator's topic of offsets. Raises ApiError."""
        for configs in (self.configs.groups, self.configs.topics, self.configs.values):
            await configs.load()
        await self.controller.ensure_internal_topic(OFFSETS_TOPIC)
        await self.numbers.prune(self.broker.image.topics_by_id)
        await self._forget_deleted(set())
        self.coordinators.groups.elsewhere = self._protocol_of
        self.held.start()

    def _protocol_of(self, group: str) -> str | None:
        """Return RocketMQ's name if its clients are members of a group."""
        return "RocketMQ" if self.members.client_ids(group) else None

    def check_group_is_free(self, group: str) -> None:
        """Raise RequestRefused while clients of Kafka's are members of a group.

        The same name used through two protocols would consume every message twice. While the
        coordinator is loading the group counts as free: a client whose heartbeat is refused sends
        the next one 30 s later, and consumes nothing until then.
        """
        shard = None
        with suppress(ApiError):
            shard = self.coordinators.groups.shard(group)
        if shard is not None and has_kafka_members(shard, group):
            text = f"group {group} has members that are clients of Kafka's: use another name"
            raise RequestRefused(ResponseCode.NO_PERMISSION, text)

    def close(self) -> None:
        """Stop timers, and the work that requests wait for."""
        self.deadlines.close()
        self.offsets.close()
        self.held.close()
        for task in self._working:
            task.cancel()

    def work(self, work: Coroutine[Any, Any, None]) -> None:
        """Do a request's work beside others; it answers its errors itself."""
        task = asyncio.get_running_loop().create_task(work)
        self._working.add(task)
        task.add_done_callback(self._working.discard)

    def added_ms(self, topic: ServedTopic, queue_id: int) -> int:
        """Return when a queue was added to a topic in use, or shown again; 0: neither."""
        shown_ms = 0 if topic.config is None else topic.config.added_ms(queue_id)
        return max(self.numbers.added_ms(topic.info, queue_id), shown_ms)

    def began_ms(self, group: str, topic: ServedTopic) -> int | None:
        """Return when a group first reported or stored something of a topic, in ms since 1970.

        None: it has not. ApiError: the coordinator is loading.
        """
        stored = self.offsets.first_stored_ms(group, topic.info.name, topic.queues)
        seen = self.members.subscribed_since(group, topic.name)
        if seen is None:
            return stored
        clock = self.broker.clock
        seen_ms = clock.wall_ms() - int((clock.monotonic() - seen) * 1000)
        return seen_ms if stored is None else min(stored, seen_ms)

    def known_groups(self) -> list[str]:
        """Return the groups with settings, members or offsets, sorted. ApiError: loading."""
        return sorted({*self.configs.groups, *self.members, *self.commits().groups()})

    # Topics

    def topic(self, name: str) -> ServedTopic:
        """Return a topic by RocketMQ's name. Raises RequestRefused."""
        found = self.topic_if_any(name)
        if found is None:
            raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, _UNKNOWN_TOPIC.format(name))
        return found

    def topic_if_any(self, name: str) -> ServedTopic | None:
        """Return a topic by RocketMQ's name, None if it does not exist or is internal.

        Topics of RocketMQ's own are internal for Kafka's clients only. Raises RequestRefused for a
        name that is no topic's.
        """
        try:
            check_name(name, TOPIC_CHARACTERS_MAX, "topic")
            info = self.broker.image.topics.get(kafka_name(name))
        except Malformed as error:
            raise RequestRefused(ResponseCode.INVALID_PARAMETER, str(error)) from None
        if info is None or (info.internal and not is_own(name)):
            return None
        return ServedTopic(name, info, self.config_of(info))

    def config_of(self, info: TopicInfo) -> TopicConfig | None:
        """Return a topic's settings, None without any of its own."""
        return self.configs.topics.get(info.topic_id.hex())

    def awaits_retries(self, name: str) -> str | None:
        """Return the group whose retry topic has this name, if the topic does not exist yet.

        None: it exists, the group is not known, or the name is another topic's.
        """
        if not name.startswith(RETRY_PREFIX) or self.topic_if_any(name) is not None:
            return None
        group = name.removeprefix(RETRY_PREFIX)
        return group if self.is_known(group) else None

    def is_known(self, group: str) -> bool:
        """Return whether a group has settings, members or offsets; no while the latter load."""
        with suppress(ApiError):
            return self.exists(group)
        return False

    def exists(self, group: str) -> bool:
        """Return whether a group has settings, members or offsets. ApiError: loading."""
        return (
            self.configs.groups.get(group) is not None
            or bool(self.members.client_ids(group))
            or bool(self.commits().offsets(group))
        )

    def note_group(self, group: str) -> None:
        """Create a group that a client uses if it does not exist, as RocketMQ does."""
        groups = self.configs.groups
        if groups.get(group) is None and len(groups) < GROUPS_MAX:
            self.work(groups.note(group, GroupConfig(group)))

    def topic_names(self) -> dict[str, TopicInfo]:
        """Return the topics that have a RocketMQ name and are not internal, by that name."""
        named = ((rocketmq_name(info.name), info) for info in self.broker.image.topics.values())
        return {
            name: info
            for name, info in named
            if name is not None and (not info.internal or is_own(name))
        }

    def partition(self, topic: ServedTopic, queue_id: int) -> "Partition":
        """Return a queue's partition, which this broker leads. ApiError: it does not."""
        return self.broker.partition(topic.info.name, queue_id)

    def store(
        self, place: TopicPartition, sent: "SentMessage", done: "Done[int | ApiError]"
    ) -> None:
        """Append a message to a queue; `done` gets its offset when it is stored, or the error."""
        self.sending.add(QueuedSend(place, [sent], done))

    async def numbered(self, topic: ServedTopic) -> Sequence[int]:
        """Return the numbers of a topic's partitions. Raises ApiError."""
        return self.numbers.known(topic.info) or await self.numbers.assigned(topic.info)

    def check_may_consume(self, group: str) -> None:
        """Raise RequestRefused if an operator has switched consumption off for a group."""
        config = self.configs.groups.get(group)
        if config is not None and not config.consume_enabled:
            raise RequestRefused(
                ResponseCode.NO_PERMISSION,
                f"subscription group no permission, {group}",
                {FORBIDDEN: GROUP_FORBIDDEN},
            )

    def operation(self, identity: Identity, by: str) -> OperationContext:
        """Return the context of an administrative operation; `by`: the request's name."""
        caller = Caller(identity, Surface.KAFKA, by)
        return OperationContext(self.broker, self.controller, self.coordinators, caller)

    # Permissions

    def require_topic(self, identity: Identity, operation: Operation, topic: ServedTopic) -> None:
        """Raise RequestRefused, and audit it, if a client may not use a topic."""
        if self._is_of_own_group(identity, topic):
            return
        self._require(identity, operation, Resource(ResourceType.TOPIC, topic.info.name))

    def require_group(
        self, identity: Identity, group: str, operation: Operation = Operation.READ
    ) -> None:
        """Raise RequestRefused, and audit it, if a client may not use a group."""
        try:
            check_name(group, GROUP_CHARACTERS_MAX, "group")
        except Malformed as error:
            raise RequestRefused(ResponseCode.INVALID_PARAMETER, str(error)) from None
        self._require(identity, operation, Resource(ResourceType.GROUP, group))

    def may(self, identity: Identity, operation: Operation, topic: ServedTopic) -> bool:
        """Return whether a client may use a topic, without an audit line."""
        authorizer = self.broker.authorizer
        resource = Resource(ResourceType.TOPIC, topic.info.name)
        return (
            authorizer.allows_all
            or self._is_of_own_group(identity, topic)
            or authorizer.allows(identity, operation, resource)
        )

    def _is_of_own_group(self, identity: Identity, topic: ServedTopic) -> bool:
        """Return whether a topic has retries or dead letters of a group that a client may use."""
        if (group := group_of(topic.name)) is None:
            return False
        resource = Resource(ResourceType.GROUP, group)
        return self.broker.authorizer.allows(identity, Operation.READ, resource)

    def _require(self, identity: Identity, operation: Operation, resource: Resource) -> None:
        authorizer = self.broker.authorizer
        if authorizer.allows_all or authorizer.allows(identity, operation, resource):
            return
        self.broker.audit.refused(identity, operation, resource)
        raise RequestRefused(
            ResponseCode.NO_PERMISSION,
            f"no permission: {operation.name} of {resource.kind.name.lower()} {resource.name}",
        )
