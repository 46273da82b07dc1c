"""A partition that a broker in process leads for followers, who ask by raw fetches."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, cast

from headrace.broker.metadata_image import BrokerInfo, ImageDelta
from headrace.broker.partition import Partition
from headrace.broker.replica.in_sync_replicas import IsrChange, Replicas
from headrace.broker.replica.leader_term import LeaderTerm
from headrace.cluster.topics.creation import NewTopic
from headrace.frontends.kafka.connection.dispatch import Dispatcher
from headrace.frontends.kafka.connection.registry import APIS
from headrace.frontends.kafka.fetch import fetch as fetch_api
from headrace.model.errors import ErrorCode
from headrace.model.nouns import BrokerId, LeaderEpoch
from headrace.net.pending import Pending
from headrace.testing.disk import SimDisk
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.hot import fetch
from headrace.wire.kafka.hot.fetch_response import FetchedPartition, FetchResponse, decode_response
from tests.support.processes.broker import Room, play, room

TOPIC = "t"
A, B = BrokerId(21), BrokerId(22)
"""The followers."""
EPOCH = 5
REGISTERED = 70
"""The epoch of the followers' registrations."""
VERSION = 17
Story = Callable[[Room], Coroutine[Any, Any, None]]


async def led(
    here: Room, *in_sync: BrokerId, partitions: int = 1, epoch: int = EPOCH, **config: str
) -> Partition:
    """Lead a new topic's partitions for A and B, those `in_sync` with us; returns the first."""
    own = here.broker.broker_id
    settings = {key.replace("_", "."): value for key, value in config.items()}
    await here.controller.create_topics([NewTopic(TOPIC, partitions, 1, config=settings)])
    registered(here)
    for index in range(partitions):
        lead(here, *in_sync, index=index, epoch=epoch)
    assert own not in (A, B)
    return here.broker.partition(TOPIC, 0)


def lead(
    here: Room, *in_sync: BrokerId, index: int = 0, epoch: int = EPOCH, version: int = 0,
    assigned: tuple[BrokerId, ...] = (A, B),
) -> LeaderTerm:  # fmt: skip
    """Lead a partition as the controller has written it."""
    own = here.broker.broker_id
    role = here.broker.partition(TOPIC, index).role
    replicas = Replicas(own, (own, *assigned), (own, *in_sync), version)
    role.lead(LeaderEpoch(epoch), replicas, now=here.broker.clock.monotonic())
    assert role.term is not None
    return role.term


def registered(here: Room, **epochs: int) -> None:
    """Have the followers registered."""
    brokers = [*here.broker.image.brokers.values()]
    brokers = [broker for broker in brokers if broker.broker_id not in (A, B)]
    brokers += [BrokerInfo(broker, (), epoch=REGISTERED) for broker in (A, B)]
    here.broker.publish(ImageDelta(brokers=brokers))


class Asking:
    """One who says he is a broker, and asks on in his session; without one where `session` is off.

    `where`: partition to (fetch offset, last epoch).
    """

    def __init__(
        self, here: Room, broker: int = A, *, session: bool = True, shared: Any = None
    ) -> None:
        self.here = here
        self.broker = broker
        self.session = session
        self.shared = shared or dispatcher(here).shared
        self.session_id = 0
        self.session_epoch = 0
        self.registration = REGISTERED
        self.leader_epoch = EPOCH
        self.max_bytes = 1 << 20
        self.log_start = 0
        self.isolation = 0
        self.rack = ""
        self.version = VERSION

    def ask(
        self, where: dict[int, tuple[int, int]], *, wait_ms: int = 500, topic_id: bytes = b""
    ) -> Any:
        """Send one request that names these partitions; the answer as the broker gives it."""
        known = topic_id or self.here.broker.image.topics[TOPIC].topic_id
        parts = [
            fetch.FetchPartition(
                index, self.leader_epoch, offset, epoch, self.log_start, self.max_bytes
            )
            for index, (offset, epoch) in where.items()
        ]
        request = fetch.FetchRequest(
            wait_ms, 1, 1 << 20, self.isolation, self.session_id,
            self.session_epoch if self.session else -1,
            [fetch.FetchTopic(TOPIC, known, parts)] if parts else [],
            rack_id=self.rack, replica_id=self.broker, replica_epoch=self.registration,
        )  # fmt: skip
        context = self.here.context(ApiKey.FETCH, self.version)
        context.shared = self.shared
        if self.session:
            self.session_epoch += 1
        body = fetch.encode_request(self.version, request)
        return fetch_api.handle(context, memoryview(bytearray(body)))

    async def told(self, answer: Any) -> dict[int, FetchedPartition]:
        """The partitions in an answer, once it is there."""
        response = await self.answered(answer)
        assert response.error_code == 0
        return {part.partition: part for topic in response.topics for part in topic.partitions}

    async def answered(self, answer: Any) -> FetchResponse:
        if isinstance(answer, Pending):
            for _ in range(1000):
                if answer.done:
                    break
                await asyncio.sleep(0)
            assert answer.done
            answer = answer.parts()
        whole = b"".join(bytes(part) for part in answer)
        response = decode_response(self.version, memoryview(whole))
        self.session_id = response.session_id
        return response

    async def at(self, offset: int, epoch: int = EPOCH, **how: Any) -> FetchedPartition:
        """What partition 0 gives from `offset` on."""
        return (await self.told(self.ask({0: (offset, epoch if offset else -1)}, **how)))[0]


def dispatcher(here: Room) -> Dispatcher:
    return Dispatcher(here.broker, here.coordinators, here.controller, APIS, here.broker.metrics)


async def turns(count: int = 30) -> None:
    """Let everything that is due happen."""
    for _ in range(count):
        await asyncio.sleep(0)


def tell(tmp_path: Path, story: Story, **settings: Any) -> None:
    """Play a story in a broker."""

    async def told() -> None:
        async with room(tmp_path, SimDisk(), **settings) as here:
            await story(here)

    play(told())


def is_flushed(partition: Partition) -> Callable[[], bool]:
    return lambda: partition.log.flushed_offset == partition.log.end_offset


def records_in(given: FetchedPartition) -> bytes:
    return bytes(cast("bytes", given.records))


def pending(partition: Partition) -> IsrChange | None:
    """What the controller is to be asked."""
    term = partition.role.term
    return None if term is None else term.pending


def code(result: FetchedPartition) -> ErrorCode:
    return ErrorCode(result.error_code)
