"""The broker as RocketMQ's requests see it: topics by their RocketMQ names, groups, permissions."""

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.broker.metadata_image import ImageDelta, TopicInfo
from headrace.frontends.rocketmq.answers import RequestRefused
from headrace.frontends.rocketmq.later.held_topics import HeldTopics
from headrace.frontends.rocketmq.sending import QueuedSend, Sending
from headrace.log.directory.holds import WantsNothing
from headrace.model.errors import ApiError, Malformed
from headrace.model.nouns import OFFSETS_TOPIC, TopicPartition
from headrace.ports.deadlines import Deadlines
from headrace.security.authorizer import Operation, Resource, ResourceType
from headrace.security.identity import Identity
from headrace.subscriptions.group_offsets import GroupOffsets, OwnCommits
from headrace.subscriptions.held.half_messages import AskingRules
from headrace.subscriptions.kafka_members import has_kafka_members
from headrace.subscriptions.members import GroupMembers
from headrace.subscriptions.new_groups import ZeroOffsetRule
from headrace.subscriptions.producers import ProducerGroups
from headrace.subscriptions.queue_locks import QueueLocks
from headrace.wire.rocketmq.codes import ResponseCode
from headrace.wire.rocketmq.topic_names import (
    GROUP_CHARACTERS_MAX,
    RESERVED_PREFIX,
    TOPIC_CHARACTERS_MAX,
    check_name,
    group_of,
    kafka_name,
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


class RemotingSettings(NamedTuple):
    """The settings of RocketMQ's listeners."""

    cluster: str
    region: str
    advertised: tuple[str, int] | None
    """The address in routes; None: the one that the client has connected to."""
    zero_offset: ZeroOffsetRule
    memory_bytes: int
    """The machine's memory, which the rule 4.9 asks for."""
    queues_default: int
    """Queues of a topic that a send creates, at most."""
    delay_ms_max: int
    """The longest delay of a message that names a time."""
    recalls: bool
    """Whether delayed messages may be recalled."""
    asked_after_ms: int
    """After what time the producer of an undecided message is asked first."""
    asking: AskingRules


class ServedTopic(NamedTuple):
    """A topic by both names."""

    name: str
    info: TopicInfo

    @property
    def queues(self) -> int:
        """The number of its queues."""
        return len(self.info.partitions)


class ServedBroker:
    """The dependencies of all requests. On the deciding thread."""

    def __init__(
        self,
        broker: "Broker",
        controller: "ControllerPort",
        coordinators: "Coordinators",
        numbers: "PartitionNumbers",
        settings: RemotingSettings,
    ) -> None:
        self.broker = broker
        self.controller = controller
        self.coordinators = coordinators
        self.numbers = numbers
        self.settings = settings
        self.members = GroupMembers()
        self.locks = QueueLocks()
        self.offsets = GroupOffsets(lambda: OwnCommits(coordinators.groups), broker.clock)
        self.sending = Sending(broker)
        self.producers: ProducerGroups[RemotingClientSide] = ProducerGroups()
        self.held = HeldTopics(
            broker,
            controller,
            numbers,
            self.store,
            self.work,
            settings.asking,
        )
        self.waiting_sends: dict[str, deque[tuple[RemotingCall, SendRequest]]] = {}
        """By topic: sends that wait until it exists and its partitions have numbers, in order."""
        self.deadlines = Deadlines(broker.clock)
        self.name = f"headrace-{broker.broker_id}"
        """The name of this broker in routes and in clients' queues."""
        self._working: set[asyncio.Task[None]] = set()
        self._no_holder = WantsNothing()
        broker.image.observers.append(self._image_changed)
        broker.opened.append(self._partition_opened)
        broker.closed.append(self._partition_closed)

    def _partition_opened(self, partition: "Partition") -> None:
        """Have retention and compaction treat the protocol's own topics as they do any other."""
        place = partition.topic_partition
        if place.topic.startswith(RESERVED_PREFIX):
            self._partition_closed(partition)  # it may be opened more than once
            partition.log.context.holds.add(place, self._no_holder)

    def _partition_closed(self, partition: "Partition") -> None:
        partition.log.context.holds.remove(partition.topic_partition, self._no_holder)

    def _image_changed(self, delta: ImageDelta, structural: bool) -> None:
        if delta.removed:
            self.numbers.forget(set(self.broker.image.topics_by_id))
        for topic in delta.topics:
            if self.numbers.is_used(topic) and self.numbers.known(topic) is None:
                # Now, so that the time of adding is right; the next use would do it otherwise.
                self.work(self._number(topic))

    async def _number(self, topic: TopicInfo) -> None:
        with suppress(ApiError):
            await self.numbers.assigned(topic)

    async def ready(self) -> None:
        """Create the topic in which the coordinator keeps offsets. Raises ApiError."""
        await self.controller.ensure_internal_topic(OFFSETS_TOPIC)
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
        try:
            shard = self.coordinators.groups.shard(group)
        except ApiError:
            return
        if has_kafka_members(shard, group):
            text = f"group {group} has members that are clients of Kafka's: use another name"
            raise RequestRefused(ResponseCode.NO_PERMISSION, text)

    def close(self) -> None:
        """Stop timers, and the work that requests wait for."""
        self.deadlines.close()
        self.held.close()
        for task in self._working:
            task.cancel()

    def work(self, work: Coroutine[Any, Any, None]) -> None:
        """Do a request's work beside others; it answers its errors itself."""
        task = asyncio.get_running_loop().create_task(work)
        self._working.add(task)
        task.add_done_callback(self._working.discard)

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

    # Topics

    def topic(self, name: str) -> ServedTopic:
        """Return a topic by RocketMQ's name. Raises RequestRefused."""
        found = self.topic_if_any(name)
        if found is None:
            raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, _UNKNOWN_TOPIC.format(name))
        return found

    def topic_if_any(self, name: str) -> ServedTopic | None:
        """Return a topic by RocketMQ's name, None if it does not exist or is internal.

        Topics of retries and of dead letters are internal for Kafka's clients only.

        Raises RequestRefused for a name that is no topic's.
        """
        try:
            check_name(name, TOPIC_CHARACTERS_MAX, "topic")
            info = self.broker.image.topics.get(kafka_name(name))
        except Malformed as error:
            raise RequestRefused(ResponseCode.INVALID_PARAMETER, str(error)) from None
        if info is None or (info.internal and not name.startswith("%")):
            return None
        return ServedTopic(name, info)

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

    @property
    def added_properties(self) -> bytes:
        """The properties that each pulled message gets, and no stored one has."""
        settings = self.settings
        return (
            f"MSG_REGION\x01{settings.region}\x02CLUSTER\x01{settings.cluster}\x02"
            "TRACE_ON\x01true\x02"
        ).encode()

    # Permissions

    def require_topic(self, identity: Identity, operation: Operation, topic: ServedTopic) -> None:
        """Raise RequestRefused, and audit it, if a client may not use a topic."""
        if self._is_of_own_group(identity, topic):
            return
        self._require(identity, operation, Resource(ResourceType.TOPIC, topic.info.name))

    def require_group(self, identity: Identity, group: str) -> None:
        """Raise RequestRefused, and audit it, if a client may not consume as a group."""
        try:
            check_name(group, GROUP_CHARACTERS_MAX, "group")
        except Malformed as error:
            raise RequestRefused(ResponseCode.INVALID_PARAMETER, str(error)) from None
        self._require(identity, Operation.READ, Resource(ResourceType.GROUP, group))

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
        group = group_of(topic.name)
        if group is None:
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
