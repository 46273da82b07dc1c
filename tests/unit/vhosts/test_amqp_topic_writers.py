"""The topics that exchanges store in: writers, what is asked before, how they are made."""

import asyncio
import gc
import weakref
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.broker.partition import Partition
from headrace.model.errors import ApiError, ErrorCode, HeadraceError, Malformed
from headrace.model.nouns import LeaderEpoch, TopicPartition
from headrace.queue_stores.log.queue_logs import QueueLogs
from headrace.queue_stores.log.settled_files import SettledFiles
from headrace.queue_stores.queue_settings import ExchangeTopic
from headrace.queues.permissions.access import Permission
from headrace.queues.refusals import RefusalKind, Refused
from headrace.vhosts import exchange_topics
from headrace.vhosts.exchange_topics import ExchangeTopics, check_stored
from headrace.wire.amqp.content import Message
from headrace.wire.amqp.properties import Properties, make_header
from tests.support.log.log import World
from tests.support.queues.log import CONFIG

NAMES = ("a", "b", "c")


class Room:
    """Topics of one partition, and what stores messages in them."""

    def __init__(self, *topics: str) -> None:
        self.world = World(config=replace(CONFIG))
        self.partitions = {topic: self._lead(topic) for topic in topics}
        broker: Any = SimpleNamespace(
            disk=self.world.disk,
            clock=self.world.clock,
            partition=lambda topic, index: self.partitions[topic],
            image=SimpleNamespace(
                topics={topic: SimpleNamespace(partitions=[0]) for topic in topics}
            ),
        )
        clock = self.world.clock
        logs = QueueLogs(SettledFiles(self.world.disk, clock), clock, lambda messages: None)
        controller: Any = self
        self.topics = ExchangeTopics(broker, controller, logs)
        self.outcome: ApiError | None = None
        self.refusal: ApiError | None = None
        self.gate: weakref.ref[asyncio.Future[None]] | None = None

    def _lead(self, topic: str) -> Partition:
        log = self.world.log(TopicPartition(topic, 0))
        partition = Partition(log, flusher=self.world.directory.flusher)
        partition.role.lead(LeaderEpoch(1))
        return partition

    async def auto_create(self, topics: list[str]) -> dict[str, ApiError | None]:
        """Have them made once the gate is opened, to which nobody else has a reference."""
        gate = asyncio.get_running_loop().create_future()
        self.gate = weakref.ref(gate)
        await gate
        if self.refusal is not None:
            raise self.refusal
        return dict.fromkeys(topics, self.outcome)

    def open_gate(self) -> None:
        gate = None if self.gate is None else self.gate()
        assert gate is not None, "somebody waits for the topic"
        gate.set_result(None)


def message() -> Message:
    return Message("e", "k", make_header(1, Properties()), b"x")


def test_a_topic_has_one_writer() -> None:
    room = Room(*NAMES)
    assert room.topics.writer("a") is room.topics.writer("a")


def test_beyond_a_bound_writers_are_forgotten_but_not_those_with_something_on_its_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exchange_topics, "WRITERS_KEPT_MAX", 2)
    room = Room(*NAMES)
    busy, idle = room.topics.writer("a"), room.topics.writer("b")
    busy.append(message(), None)
    assert room.topics.writer("b") is idle
    third = room.topics.writer("c")
    assert room.topics.writer("a") is busy
    assert room.topics.writer("c") is third
    assert room.topics.writer("b") is not idle


# What is asked before a message is taken


class Stores:
    """Topics that check what is to be stored. `Targets`, and `TopicStore`"""

    def __init__(self, *keys: str | None) -> None:
        """The header of each topic's keys."""
        self.headers = dict(zip(NAMES, keys, strict=False))
        self.refuses: dict[str, HeadraceError] = {}
        self.checked: list[tuple[str, str | None]] = []
        self.asked: list[str] = []

    def topic(self, name: str) -> Any:
        def check(_: Message, key_header: str | None) -> None:
            self.checked.append((name, key_header))
            if name in self.refuses:
                raise self.refuses[name]

        stored = ExchangeTopic(name, self.headers[name])
        return SimpleNamespace(stored=stored, store=SimpleNamespace(check=check))

    def check(self, permission: Permission, kind: str, name: str) -> None:
        assert (permission, kind) == (Permission.WRITE, "Kafka topic")
        self.asked.append(name)

    def check_all(self) -> None:
        route: Any = SimpleNamespace(topics=list(self.headers))
        itself: Any = self
        check_stored(itself, itself, route, message())


def test_every_topic_of_a_route_is_asked_for_its_right_its_key_and_its_room() -> None:
    stores = Stores(None, "k")
    stores.check_all()
    assert stores.asked == ["a", "b"]
    assert stores.checked == [("a", None), ("b", "k")]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, RefusalKind.NOT_FOUND),
        (ErrorCode.MESSAGE_TOO_LARGE, RefusalKind.PRECONDITION_FAILED),
        (ErrorCode.INVALID_RECORD, RefusalKind.PRECONDITION_FAILED),
    ],
)
def test_a_message_that_one_topic_of_several_never_takes_is_taken_by_none(
    code: ErrorCode, kind: RefusalKind
) -> None:
    stores = Stores(None, None)
    stores.refuses["b"] = ApiError(code)
    with pytest.raises(Refused) as refusal:
        stores.check_all()
    assert refusal.value.kind is kind


def test_what_a_topic_may_take_soon_is_no_reason_to_close_a_channel() -> None:
    stores = Stores(None, None)
    stores.refuses["a"] = ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    stores.check_all()
    assert [name for name, _ in stores.checked] == ["a", "b"]


def test_headers_that_nobody_can_read_close_the_connection() -> None:
    stores = Stores("k")
    stores.refuses["a"] = Malformed("headers")
    with pytest.raises(Refused, match="the properties of a message cannot be read"):
        stores.check_all()


# Topics that are made


def made(room: Room) -> list[HeadraceError | None]:
    """Have a topic made; what is told of it."""
    told: list[HeadraceError | None] = []

    async def play() -> None:
        room.topics.make("orders", told.append)
        await asyncio.sleep(0)
        gc.collect()
        assert told == []
        room.open_gate()
        for _ in range(5):
            await asyncio.sleep(0)

    asyncio.run(play())
    return told


@pytest.mark.parametrize("raised", [False, True])
def test_why_a_topic_is_not_made_is_told(raised: bool) -> None:
    room = Room()
    why = ApiError(ErrorCode.POLICY_VIOLATION)
    room.refusal, room.outcome = (why, None) if raised else (None, why)
    assert made(room) == [why]


def test_a_topic_that_is_being_made_is_waited_for_though_nobody_else_remembers_it() -> None:
    assert made(Room()) == [None]


def test_a_topic_that_is_there_is_not_made_again() -> None:
    room = Room("orders")
    told: list[HeadraceError | None] = []
    room.topics.make("orders", told.append)  # there is no loop to make it on
    assert told == [None]
