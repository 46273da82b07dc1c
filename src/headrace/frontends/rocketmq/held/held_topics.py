"""`HeldTopics`: the internal topics of messages that wait, opened at their first use.

A topic that exists is opened at the start, so that delays fire without a client. The code that uses
one waits until it is loaded.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from headrace.cluster.topics.creation import NewTopic
from headrace.held.delays import Delays
from headrace.held.held_log import HeldLog
from headrace.held.held_records import HeldMessage
from headrace.held.topic_targets import HeldTopicMessage, StoredTopicMessage, TopicTargets
from headrace.model.errors import ApiError, ErrorCode, HeadraceError
from headrace.model.nouns import TopicPartition
from headrace.ports.callbacks import ignore_result
from headrace.subscriptions.half_messages import AskingRules, HalfMessages
from headrace.wire.rocketmq.later_properties import held_properties
from headrace.wire.rocketmq.record_header import NAME, MessageFacts, decode_facts, encode_facts
from headrace.wire.rocketmq.sent_messages import BODY_BYTES_MAX, SentMessage
from headrace.wire.rocketmq.topic_names import RESERVED_PREFIX

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.broker.metadata_image import TopicInfo
    from headrace.cluster.controller_port import ControllerPort
    from headrace.frontends.rocketmq.partition_numbers import PartitionNumbers
    from headrace.ports.callbacks import Done
    from headrace.ports.clock import Timer
    from headrace.record.record import Header

T = TypeVar("T")

DELAYS_TOPIC = f"{RESERVED_PREFIX}delays"
"""The internal topic of delayed messages."""
HALF_TOPIC = f"{RESERVED_PREFIX}half"
"""The internal topic of messages whose producers have not decided yet."""
GIVEN_UP_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
"""The topic, for operators, of messages whose producers never decided."""
MS_AN_HOUR = 3_600_000
INTERNAL_CONFIG = {
    "cleanup.policy": "compact",
    "compression.type": "producer",
    "max.message.bytes": str(2 * BODY_BYTES_MAX),
    "message.timestamp.type": "CreateTime",
    "segment.bytes": str(64 * 1024 * 1024),
}
"""Settings of an internal topic: compaction removes the messages that are settled."""
CREATE_SECONDS = 10.0
OPEN_AGAIN_SECONDS = 5.0
"""Seconds after which a topic that could not be opened at the start is tried again."""
_UNKNOWN_HOST = bytes(8)

_logger = logging.getLogger(__name__)

Store = Callable[[TopicPartition, SentMessage, "Done[int | ApiError]"], None]
"""Appends a message to a queue; called back when it is stored, or with why it is not."""


class OpenedOnce(Generic[T]):
    """A value that is opened at its first use; a failed attempt is repeated by the next use.

    An attempt serves all that wait for it, so a failing one is not repeated by each of them.
    """

    def __init__(self, opens: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._opens = opens
        self._attempt: asyncio.Task[T] | None = None
        self.value: T | None = None
        """None: not opened yet."""

    async def get(self) -> T:
        """Return the value, opened if it is not. Raises what `opens` raises."""
        if self.value is not None:
            return self.value
        if self._attempt is None:
            self._attempt = asyncio.get_running_loop().create_task(self._open())
        # One that stops to wait must not end the attempt of the others.
        return await asyncio.shield(self._attempt)

    async def _open(self) -> T:
        try:
            self.value = await self._opens()
        finally:
            self._attempt = None
        return self.value

    def close(self) -> None:
        """End an attempt that is under way."""
        if self._attempt is not None:
            self._attempt.cancel()


class QueueName(NamedTuple):
    """A queue as its clients name it."""

    topic: str
    queue_id: int


def topic_config(reserved_hours: int) -> dict[str, str]:
    """Return the settings of topics with messages for clients; `reserved_hours`: -1, no end.

    Searches by time mean the time of storing, and a message of 4 MiB fits with its properties.
    """
    return {
        "message.timestamp.type": "LogAppendTime",
        "max.message.bytes": str(2 * BODY_BYTES_MAX),
        "retention.ms": str(-1 if reserved_hours < 0 else reserved_hours * MS_AN_HOUR),
    }


class HeldTopics:
    """The delayed and the undecided messages of a broker. On the deciding thread."""

    def __init__(
        self,
        broker: "Broker",
        controller: "ControllerPort",
        numbers: "PartitionNumbers",
        store: Store,
        work: Callable[..., None],
        rules: AskingRules,
        topic_config: Mapping[str, str],
    ) -> None:
        """`work` runs a coroutine beside others; `rules`: see `HalfMessages`.

        `topic_config`: settings of the topic of messages that are given up.
        """
        self._broker = broker
        self._controller = controller
        self._numbers = numbers
        self._store = store
        self._work = work
        self._rules = rules
        self._topic_config = topic_config
        self.ask: Callable[[StoredTopicMessage, int], bool] = no_producer
        """Asks a producer about an undecided message (`HalfMessages`); set before `start`."""
        self._timer: Timer | None = None
        self.delays = OpenedOnce(self._open_delays)
        self.half = OpenedOnce(self._open_half)

    def start(self) -> None:
        """Open the topics that exist, beside other work; try again later where that fails."""
        self._timer = None
        self._work(self._open_existing())

    async def _open_existing(self) -> None:
        topics = self._broker.image.topics
        try:
            if DELAYS_TOPIC in topics:
                await self.delays.get()
            if HALF_TOPIC in topics:
                await self.half.get()
        except HeadraceError as error:
            _logger.error(
                "the topics of delayed and undecided messages cannot be opened: %s. The messages"
                " are late; this is tried again every %d s",
                error, OPEN_AGAIN_SECONDS,
            )  # fmt: skip
            self._timer = self._broker.clock.call_later(OPEN_AGAIN_SECONDS, self.start)

    def close(self) -> None:
        """Deliver nothing more."""
        if self._timer is not None:
            self._timer.cancel()
        self.delays.close()
        self.half.close()
        for opened in (self.delays.value, self.half.value):
            if opened is not None:
                opened.close()

    # Delays

    def delay(
        self,
        message: HeldTopicMessage,
        due_ms: int,
        done: "Done[int | ApiError]",
        appended: "Done[int]" = ignore_result,
    ) -> None:
        """Hold a message until a time, ms since 1970.

        `done` is called once, with its offset in the topic of delays when it is stored there, or
        with why it is not; `appended` before, with the offset, when it is not flushed yet.
        """
        self._hold(self.delays, message, due_ms, done, appended)

    def half_message(
        self,
        message: HeldTopicMessage,
        ask_ms: int,
        done: "Done[int | ApiError]",
        appended: "Done[int]" = ignore_result,
    ) -> None:
        """Hold a message until its producer decides, which is asked at a time, ms since 1970.

        `done` and `appended`: see `delay`.
        """
        self._hold(self.half, message, ask_ms, done, appended)

    def _hold(
        self,
        topic: "OpenedOnce[Delays[TopicPartition]] | OpenedOnce[HalfMessages]",
        message: HeldTopicMessage,
        time_ms: int,
        done: "Done[int | ApiError]",
        appended: "Done[int]",
    ) -> None:
        if topic.value is None:
            self._work(_hold_later(topic, message, time_ms, done, appended))
        else:
            topic.value.add(message, time_ms, done, appended)

    async def _open_delays(self) -> Delays[TopicPartition]:
        log = await self._open_log(DELAYS_TOPIC)
        delays = Delays(log, self._deliver, self._broker.clock)
        await delays.load()
        return delays

    async def _open_half(self) -> HalfMessages:
        log = await self._open_log(HALF_TOPIC)
        half = HalfMessages(log, self._broker.clock, self._rules, self.ask, self._give_up)
        await half.load()
        return half

    def _give_up(self, message: HeldTopicMessage, done: "Done[int | ApiError]") -> None:
        self._work(self._store_given_up(message, done))

    async def _store_given_up(
        self, message: HeldTopicMessage, done: "Done[int | ApiError]"
    ) -> None:
        try:
            await made_topic(self._broker, self._controller, GIVEN_UP_TOPIC, self._topic_config)
        except HeadraceError as error:
            done(as_api_error(error))
        else:
            self._deliver(message._replace(target=TopicPartition(GIVEN_UP_TOPIC, 0)), done)

    def _deliver(self, message: HeldTopicMessage, done: "Done[int | ApiError]") -> None:
        self._store(message.target, sent_message(message, self._broker.clock.wall_ms()), done)

    # Topics

    def number(self, topic: str) -> int:
        """Return the number of an internal topic's partition; the topic was opened."""
        numbers = self._numbers.known(self._broker.image.topics[topic])
        return 0 if numbers is None else numbers[0]

    async def _open_log(self, topic: str) -> HeldLog[TopicPartition]:
        broker = self._broker
        info = await made_topic(broker, self._controller, topic, INTERNAL_CONFIG)
        await self._numbers.assigned(info)
        partition = broker.partition(topic, 0)
        return HeldLog(partition, broker.disk, broker.clock, broker.random, TopicTargets())


async def _hold_later(
    topic: "OpenedOnce[Delays[TopicPartition]] | OpenedOnce[HalfMessages]",
    message: HeldTopicMessage,
    time_ms: int,
    done: "Done[int | ApiError]",
    appended: "Done[int]",
) -> None:
    try:
        opened = await topic.get()
    except HeadraceError as error:
        done(as_api_error(error))
    else:
        opened.add(message, time_ms, done, appended)


async def made_topic(
    broker: "Broker",
    controller: "ControllerPort",
    name: str,
    config: Mapping[str, str],
    partitions: int = 1,
) -> "TopicInfo":
    """Return a topic that the broker itself needs, created with these partitions if it is missing.

    Raises ApiError.
    """
    if name not in broker.image.topics:
        wanted = NewTopic(name, partitions, config=dict(config))
        (result,) = await controller.create_topics([wanted], wait_seconds=CREATE_SECONDS)
        if isinstance(result, ApiError) and result.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise result
    found = broker.image.topics.get(name)
    if found is None:
        raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"topic {name} is being created")
    return found


def no_producer(stored: StoredTopicMessage, count: int) -> bool:
    """Return False: there is no producer to ask about a message."""
    return False


# Messages


def held_message(place: TopicPartition, queue: QueueName, sent: SentMessage) -> HeldTopicMessage:
    """Return a message that waits for its queue."""
    properties = held_properties(sent.facts.properties, queue.topic, queue.queue_id)
    facts = sent.facts._replace(properties=properties)
    return HeldMessage(place, sent.body, ((NAME, encode_facts(facts)),))


def sent_message(message: HeldTopicMessage, now_ms: int) -> SentMessage:
    """Return a held message as it is stored in its queue."""
    facts = decode_facts(_header(message.headers, NAME))
    if facts is None:  # not written by this broker
        facts = MessageFacts(0, 0, now_ms, 0, _UNKNOWN_HOST, b"")
    return SentMessage(message.body, facts)


def _header(headers: "tuple[Header, ...]", name: str) -> bytes | None:
    return next((value for key, value in headers if key == name), None)


def as_api_error(error: HeadraceError) -> ApiError:
    """Return an error as the answer of a broker; one without a code may pass."""
    if isinstance(error, ApiError):
        return error
    return ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error))
