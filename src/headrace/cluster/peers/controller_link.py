"""`ControllerLink`: a broker's requests to the controller, which is this broker or another one."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import groupby
from typing import Any, TypeVar

from headrace.broker.metadata_image import ImageDelta, TopicInfo
from headrace.client.calls.call import Call, ColdCall, Maker, check, error_code
from headrace.client.transport.port import ClientError, TimedOut
from headrace.cluster.controller.controller import Controller
from headrace.cluster.decisions.events import IsrAsked
from headrace.cluster.peers import queue_topic_calls
from headrace.cluster.peers.controller_channel import ControllerChannel
from headrace.cluster.peers.peer_call import Fields, PeerCall
from headrace.cluster.peers.queue_topic_calls import Outcomes, QueueTopicChanges
from headrace.cluster.store.znodes import ProducerIdBlock
from headrace.cluster.topics.creation import USE_DEFAULT, NewTopic, Spend
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, LeaderEpoch, TopicPartition
from headrace.replication.controller_calls import AskedIsr, IsrAnswer
from headrace.wire.kafka.api import ApiKey

_logger = logging.getLogger(__name__)

T = TypeVar("T")

SHOWN_SECONDS_MAX = 10.0
"""Seconds until this broker's metadata image must have a topic that the controller has created."""
_CREATION_SECONDS = 30.0
REACH_SECONDS_MAX = 2.0
"""Seconds that the controller has to answer a check of whether it can be reached."""
_ASKED_AGAIN_SECONDS = 0.1
"""Seconds between two ControlledShutdown requests while no controller answers."""
_UNAVAILABLE = ErrorCode.LEADER_NOT_AVAILABLE


class ControllerLink:
    """A broker's requests to the controller.

    Implements `replication.controller_calls.ControllerCalls`.
    """

    def __init__(self, controller: Controller, channel: ControllerChannel) -> None:
        """Create the link. `controller`: this broker's, used while it is the elected controller."""
        self._controller = controller
        self._channel = channel
        self._broker = controller.broker

    def close(self) -> None:
        """Close the channel to other controllers; later requests to them fail."""
        self._channel.close()

    async def reach(self) -> None:
        """Check that the controller answers, within `REACH_SECONDS_MAX`.

        Raises ApiError or ClientError.
        """
        if self._controller.is_controller:
            return
        try:
            async with asyncio.timeout(REACH_SECONDS_MAX):
                await self._channel.reach()
        except TimeoutError:
            raise TimedOut(f"no answer within {REACH_SECONDS_MAX:g} s") from None

    async def alter_partitions(
        self, asked: Sequence[AskedIsr]
    ) -> Mapping[TopicPartition, IsrAnswer | ErrorCode]:
        """Request ISR changes; return for each partition its state now, or the error code.

        Sent once: the refusal of a second request would not tell whether the first is still carried
        out. ApiError and ClientError: no answer came, and each change may or may not have been
        written.
        """
        own = self._broker.broker_id

        def local() -> Awaitable[Mapping[TopicPartition, IsrAnswer | ErrorCode]]:
            event = IsrAsked(own, self._epoch, asked)
            return self._controller.in_term(lambda term: term.alter_partitions(event))

        return await self._once(local, lambda: self._alter_call(asked))

    async def allocate_producer_ids(self) -> ProducerIdBlock:
        """Reserve a block of producer ids for this broker. Raises ApiError."""
        own = self._broker.broker_id

        def call() -> Call[ProducerIdBlock]:
            fields = {"brokerId": own, "brokerEpoch": self._epoch}
            return PeerCall(ApiKey.ALLOCATE_PRODUCER_IDS, fields, self._block)

        try:
            return await self._ask(lambda: self._controller.reserve_producer_ids(own), call)
        except ClientError as error:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(error)) from error

    async def create_topic(self, wanted: NewTopic, spend: Spend) -> TopicInfo | ApiError:
        """Create a topic; on success this broker's metadata image has it. Errors are returned.

        `spend` is called with the number of partitions before they are created, and raises ApiError
        where the quota of the caller is used up.
        """
        partitions = wanted.partitions
        default = self._broker.config.num_partitions
        try:
            if not self._controller.is_controller:
                spend(default if partitions == USE_DEFAULT else partitions)
            return await self._ask(
                lambda: self._create_here(wanted, spend), lambda: _creation(wanted)
            ) or await self._shown(wanted.name)
        except ApiError as error:
            if error.code is ErrorCode.TOPIC_ALREADY_EXISTS:
                with suppress(ApiError):
                    await self._shown(wanted.name)
            return error
        except ClientError as error:
            return ApiError(_UNAVAILABLE, str(error))

    async def change_queue_topics(self, changes: QueueTopicChanges) -> Outcomes:
        """Create and delete topics of queues; return their errors, in the order of `changes`.

        ApiError: the controller has not answered, and each change may or may not be carried out.
        """
        controller, own = self._controller, self._broker.broker_id
        try:
            return await self._ask(
                lambda: queue_topic_calls.carry_out(controller, changes),
                lambda: queue_topic_calls.change_call(own, changes),
            )
        except ClientError as error:
            raise ApiError(_UNAVAILABLE, str(error)) from error

    async def hand_over(self, attempt_seconds_max: float) -> None:
        """Move leadership away from this broker, which is about to stop (controlled shutdown).

        Tried `controlled.shutdown.max.retries` times, each for `attempt_seconds_max` seconds at
        most, with `controlled.shutdown.retry.backoff.ms` between attempts. Then a warning is logged
        and the broker stops while it still leads partitions.
        """
        config = self._broker.config
        pause = config.controlled_shutdown_retry_backoff_ms / 1000
        left: Sequence[TopicPartition] = ()
        reason = ""
        for more in reversed(range(config.controlled_shutdown_max_retries)):
            try:
                async with asyncio.timeout(attempt_seconds_max):
                    left = await self._hand_over_soon(pause if more else 0.0)
            except TimeoutError:
                reason = (
                    f"the controller or the store has not answered in {attempt_seconds_max:g} s"
                )
                continue
            except (ApiError, ClientError) as error:
                reason = str(error)
                continue
            if not left:
                return
            reason = "no other in-sync replica can lead"
            if more:
                await asyncio.sleep(pause)
        named = f"{left[0]} and others" if len(left) > 1 else str(left[0]) if left else "partitions"
        _logger.warning(
            "controlled shutdown is incomplete: this broker stops while it leads %s: %s. These"
            " partitions have no leader until the broker is back or another replica is elected",
            named, reason,
        )  # fmt: skip

    async def _hand_over_soon(self, seconds_max: float) -> Sequence[TopicPartition]:
        """Send ControlledShutdown until a controller answers; return the partitions still led here.

        Errors are retried for `seconds_max`: if the controller stops as well, another is elected
        soon.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds_max
        while True:
            try:
                return await self._hand_over_once()
            except (ApiError, ClientError):
                if loop.time() >= deadline:
                    raise
            await asyncio.sleep(min(_ASKED_AGAIN_SECONDS, deadline - loop.time()))

    async def _hand_over_once(self) -> Sequence[TopicPartition]:
        """Request once that the controller moves this broker's leaderships to other brokers.

        Return the partitions that this broker still leads and that may yet be moved.
        """
        own, epoch = self._broker.broker_id, self._epoch
        if self._controller.is_controller:
            return await self._controller.in_term(lambda term: term.shut_down(own, epoch))
        fields = {"brokerId": own, "brokerEpoch": epoch}
        return await self._channel.ask_once(
            PeerCall(ApiKey.CONTROLLED_SHUTDOWN, fields, _remaining)
        )

    @property
    def _epoch(self) -> int:
        """Broker epoch of this broker's registration; -1: not registered."""
        return self._controller.applier.broker_epoch

    async def _ask(self, local: Callable[[], Awaitable[T]], call: Callable[[], Call[T]]) -> T:
        """Call the local controller or send `call` to the other one, with retries."""
        return await self._channel.retrying(lambda: self._once(local, call))

    async def _once(self, local: Callable[[], Awaitable[T]], call: Callable[[], Call[T]]) -> T:
        """Call `local` if this broker is the controller, else send `call` once."""
        if self._controller.is_controller:
            return await local()
        return await self._channel.ask_once(call())

    def _alter_call(
        self, asked: Sequence[AskedIsr]
    ) -> Call[Mapping[TopicPartition, IsrAnswer | ErrorCode]]:
        """Build the AlterPartition request.

        ApiError UNKNOWN_TOPIC_ID: the image lacks a topic by now.
        """
        topics = self._broker.image.topics
        names: dict[bytes, str] = {}
        wanted: list[dict[str, Any]] = []
        for name, some in groupby(asked, lambda wanted: wanted.topic_partition.topic):
            if name not in topics:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic {name} any more")
            topic_id = topics[name].topic_id
            names[topic_id] = name
            wanted.append({"topicId": topic_id, "partitions": list(map(_isr_fields, some))})
        fields = {
            "brokerId": self._broker.broker_id,
            "brokerEpoch": self._epoch,
            "topics": wanted,
        }
        return PeerCall(
            ApiKey.ALTER_PARTITION, fields, lambda response: _isr_answers(response, names)
        )

    def _block(self, response: Fields) -> ProducerIdBlock:
        check(response["errorCode"])
        first = response["producerIdStart"]
        last = first + response["producerIdLen"] - 1
        return ProducerIdBlock(self._broker.broker_id, first, last)

    async def _create_here(self, wanted: NewTopic, spend: Spend) -> TopicInfo | None:
        """Create the topic as the controller; ApiError: refused."""
        (outcome,) = await self._controller.create_topics([wanted], spend=spend)
        if isinstance(outcome, ApiError):
            raise outcome
        return outcome

    async def _shown(self, name: str) -> TopicInfo:
        """Wait until the metadata image has the topic.

        ApiError LEADER_NOT_AVAILABLE after the timeout.
        """
        image = self._broker.image
        heard = asyncio.get_running_loop().create_future()

        def look(delta: ImageDelta, structural: bool) -> None:
            if structural and name in image.topics and not heard.done():
                heard.set_result(None)

        image.observers.append(look)
        try:
            async with asyncio.timeout(SHOWN_SECONDS_MAX):
                if name not in image.topics:
                    await heard
            return image.topics[name]
        except TimeoutError:
            problem = f"topic {name} was created, but is not in this broker's metadata yet; retry"
            raise ApiError(_UNAVAILABLE, problem) from None
        finally:
            image.observers.remove(look)


def _isr_fields(asked: AskedIsr) -> dict[str, Any]:
    epochs = asked.epochs or (-1,) * len(asked.isr)
    return {
        "partitionIndex": asked.topic_partition.partition,
        "leaderEpoch": asked.leader_epoch,
        "newIsr": asked.isr,
        "newIsrWithEpochs": [
            {"brokerId": broker, "brokerEpoch": epoch}
            for broker, epoch in zip(asked.isr, epochs, strict=True)
        ],
        "leaderRecoveryState": 0,
        "partitionEpoch": asked.partition_epoch,
    }


def _isr_answers(
    response: Fields, names: Mapping[bytes, str]
) -> Mapping[TopicPartition, IsrAnswer | ErrorCode]:
    check(response["errorCode"])
    return {
        TopicPartition(names[topic["topicId"]], partition["partitionIndex"]): (
            error_code(partition["errorCode"])
            if partition["errorCode"]
            else IsrAnswer(
                BrokerId(partition["leaderId"]),
                LeaderEpoch(partition["leaderEpoch"]),
                tuple(map(BrokerId, partition["isr"])),
                partition["partitionEpoch"],
            )
        )
        for topic in response["topics"]
        if topic["topicId"] in names
        for partition in topic["partitions"]
    }


def _remaining(response: Fields) -> list[TopicPartition]:
    check(response["errorCode"])
    return [
        TopicPartition(partition["topicName"], partition["partitionIndex"])
        for partition in response["remainingPartitions"]
    ]


def _creation(wanted: NewTopic) -> Call[TopicInfo | None]:
    def build(maker: Maker) -> Any:  # noqa: ANN401 - kio's entity
        topic = maker.part(
            "CreatableTopic",
            name=wanted.name,
            num_partitions=wanted.partitions,
            replication_factor=wanted.replication_factor,
            assignments=(),
            configs=tuple(
                maker.part("CreatableTopicConfig", name=name, value=value)
                for name, value in wanted.config.items()
            ),
        )
        timeout = timedelta(seconds=_CREATION_SECONDS)
        return maker.request(topics=(topic,), timeout=timeout, validate_only=False)

    def parse(response: Any) -> None:  # noqa: ANN401 - kio's entity
        for topic in response.topics:
            check(topic.error_code, topic.error_message)

    return ColdCall(ApiKey.CREATE_TOPICS, build, parse, versions=(5, 7))
