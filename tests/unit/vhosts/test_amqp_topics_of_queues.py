"""What Kafka's clients do to the topics of queues: asked, waited for, refused."""

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from headrace.model.errors import ApiError, ErrorCode, HeadraceError
from headrace.queue_stores.log.durable_messages import DurableMessages
from headrace.queue_stores.log.queue_logs import QueueLogs
from headrace.queue_stores.log.settled_files import SettledFiles
from headrace.queues.engine.parts.purging_queue import Purged
from headrace.queues.engine.stream_queue import StreamQueue
from headrace.queues.model.declarations import DeclaredQueue
from headrace.queues.permissions.access import Grant
from headrace.queues.permissions.definitions import Definitions, UserDefinition
from headrace.vhosts import kafka_admin_of_queue_topics
from headrace.vhosts.kafka_admin_of_queue_topics import TO_END, TopicsOfQueues
from tests.support.amqp.access import admission_of, identity_of
from tests.support.log.log import World
from tests.support.queues.queues import settings

T = TypeVar("T")
TOPIC = "__amqp.queue.q"
HIGH_WATERMARK, READABLE, START = 10, 6, 4


class Store(DurableMessages):
    """One priority, which knows of messages up to where the test says."""

    def __init__(self, priority: int) -> None:
        world = World()
        logs = QueueLogs(SettledFiles(world.disk, world.clock), world.clock, lambda _: None)
        super().__init__(logs, "/", DeclaredQueue("q", True, False, None, {}, settings()), priority)
        self.known = 0
        self.wanted = 0
        self.on_look: Callable[[], object] = lambda: None

    @property
    def counted_to(self) -> int:
        """Where the test says."""
        self.on_look()
        return self.known

    def want_log(self) -> None:
        """Note it."""
        self.wanted += 1


class Room:
    """A broker with the queue `q` of three priorities."""

    def __init__(self, name: str = "q", *, durable: bool = True) -> None:
        self.stores = [Store(priority) for priority in range(3)]
        self.topics: dict[str, Any] = {}
        self.purges: list[tuple[int, int]] = []
        self.outcomes: list[Purged] = []
        self.on_purge: Callable[[], None] = lambda: None
        self.touched: list[Any] = []
        self.deleted: list[str] = []
        self.error: HeadraceError | None = None
        self.made = 0
        self.queue: Any = SimpleNamespace(
            name=name,
            declared=SimpleNamespace(durable=durable),
            settings=SimpleNamespace(keeps_settled=False),
            deleted=False,
            is_stream=False,
            refused=None,
            late_stores=self.stores,
            purge_below=self._purge_below,
        )
        host: Any = SimpleNamespace(
            name="/",
            queues={name: self.queue},
            touched=self.touched.extend,
            delete_queue=self._gone,
        )
        self.host = host
        log: Any = SimpleNamespace(
            high_watermark=HIGH_WATERMARK,
            readable_end=lambda committed: READABLE if committed else HIGH_WATERMARK,
            log=SimpleNamespace(start_offset=START),
            role=SimpleNamespace(when_flushed=self._flush),
        )
        self.flushed_to = HIGH_WATERMARK
        self.checkpoints: list[Callable[[None], None]] = []
        self.log = log
        broker: Any = SimpleNamespace(
            image=SimpleNamespace(topics=self.topics),
            partition=lambda topic, index: log,
            checkpoint=self.checkpoints.append,
        )
        hosts: Any = SimpleNamespace(
            hosts={"/": host}, turns=SimpleNamespace(soon=lambda: self.deleted.append("turn"))
        )
        durable_queues: Any = SimpleNamespace(
            topic_made=self._topic_made, when_kept=lambda done: done(self.error)
        )
        definitions = Definitions()
        definitions.put_user("reader", UserDefinition(grants={"/": Grant("", "", "q")}))
        definitions.put_user("writer", UserDefinition(grants={"/": Grant("q", "q", "")}))
        self.of_queues = TopicsOfQueues(broker, durable_queues, hosts, admission_of(definitions))

    def _flush(self, done: Callable[[None], None]) -> None:
        self.log.high_watermark = self.flushed_to
        done(None)

    def _purge_below(self, priority: int, below: int) -> Purged:
        self.purges.append((priority, below))
        self.on_purge()
        return self.outcomes.pop(0) if self.outcomes else Purged.ALL

    def _gone(self, name: str, *_: Any, **__: Any) -> None:
        self.deleted.append(name)

    async def _topic_made(self) -> None:
        self.made += 1

    def know(self, *counted: int) -> None:
        """Say how far each store knows its messages."""
        for store, known in zip(self.stores, counted, strict=True):
            store.known = known


def play(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, 5))


# Made and deleted


def test_the_logs_of_all_priorities_are_made_before_it_is_said_that_a_topic_is_there() -> None:
    room = Room()
    assert play(room.of_queues.make(TOPIC)) is not None, "nobody could make it"
    room.topics[TOPIC] = True
    assert play(room.of_queues.make(TOPIC)) is None
    assert [store.wanted for store in room.stores] == [2, 2, 2]
    assert room.made == 6


@pytest.mark.parametrize("room", [Room("other"), Room(durable=False)])
def test_a_topic_of_no_queue_is_neither_made_nor_deleted_nor_purged(room: Room) -> None:
    for work in (room.of_queues.make(TOPIC), room.of_queues.delete(TOPIC)):
        why = play(work)
        assert why is not None
        assert why.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with pytest.raises(ApiError) as refusal:
        play(room.of_queues.purge(TOPIC, 0, TO_END))
    assert refusal.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not room.of_queues.may_purge(identity_of("reader"), TOPIC)


def test_a_queue_of_another_vhost_is_not_taken_for_the_one_of_a_topic() -> None:
    room = Room()
    assert not room.of_queues.may_purge(identity_of("reader"), "__amqp.vhost.shop.q")


def test_why_a_deletion_could_not_be_stored_is_told() -> None:
    room = Room()
    assert play(room.of_queues.delete(TOPIC)) is None
    assert room.deleted == ["q", "turn"]
    room.error = HeadraceError("the disk is full")
    why = play(room.of_queues.delete(TOPIC))
    assert why is not None
    assert (why.code, why.message) == (ErrorCode.UNKNOWN_SERVER_ERROR, "the disk is full")


def test_to_purge_asks_for_the_right_to_read() -> None:
    room = Room()
    assert room.of_queues.may_purge(identity_of("reader"), TOPIC)
    assert not room.of_queues.may_purge(identity_of("writer"), TOPIC)


# Purged


@pytest.mark.parametrize("before", [-2, HIGH_WATERMARK + 1])
def test_offsets_that_are_not_there_cannot_be_purged(before: int) -> None:
    room = Room()
    room.know(20, 20, 20)
    with pytest.raises(ApiError) as refusal:
        play(room.of_queues.purge(TOPIC, 0, before))
    assert refusal.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert room.purges == []


def test_a_purge_waits_for_the_flush_of_acknowledged_records() -> None:
    room = Room()
    room.know(20, 20, 20)
    room.flushed_to = HIGH_WATERMARK + 1
    play(room.of_queues.purge(TOPIC, 0, HIGH_WATERMARK + 1))
    assert room.purges == [(0, READABLE)]


@pytest.mark.parametrize(
    ("before", "below"),
    [(TO_END, READABLE), (HIGH_WATERMARK, READABLE), (READABLE, READABLE), (5, 5), (0, 0)],
)
def test_what_an_open_transaction_wrote_is_not_purged_nor_waited_for(
    before: int, below: int
) -> None:
    room = Room()
    room.know(0, READABLE, 0)
    assert play(room.of_queues.purge(TOPIC, 1, before)) == START
    assert room.purges == [(1, below)]
    assert room.touched == [room.queue]


def test_a_purge_goes_on_until_all_is_settled_also_what_must_be_read_first() -> None:
    room = Room()
    room.know(READABLE, 0, 0)
    room.outcomes = [Purged.SOME, Purged.BEING_READ, Purged.SOME, Purged.ALL]
    play(room.of_queues.purge(TOPIC, 0, TO_END))
    assert room.purges == [(0, READABLE)] * 4


def test_a_queue_that_is_deleted_while_it_is_purged_ends_that() -> None:
    room = Room()
    room.know(READABLE, 0, 0)
    room.outcomes = [Purged.BEING_READ] * 3

    def delete() -> None:
        room.queue.deleted = True

    room.on_purge = delete
    with pytest.raises(ApiError) as refusal:
        play(room.of_queues.purge(TOPIC, 0, TO_END))
    assert refusal.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert len(room.purges) == 1


def test_a_purge_waits_until_the_queue_knows_what_others_wrote_and_was_told() -> None:
    room = Room()
    told: list[str] = []

    def tell() -> None:
        """Tell the queue when this turn is over, as its stores do."""
        asyncio.get_running_loop().call_later(0, lambda: told.append("told"))

    async def purge() -> None:
        purging = asyncio.create_task(room.of_queues.purge(TOPIC, 0, TO_END))
        await asyncio.sleep(4 * kafka_admin_of_queue_topics.LOOK_SECONDS)
        assert room.purges == []
        room.know(READABLE - 1, READABLE, READABLE)
        await asyncio.sleep(4 * kafka_admin_of_queue_topics.LOOK_SECONDS)
        assert room.purges == []
        room.know(READABLE, 0, 0)
        room.stores[0].on_look = tell
        room.on_purge = lambda: told.append("purged")
        await purging

    play(purge())
    assert told == ["told", "purged"]


def test_a_queue_that_is_deleted_is_not_waited_for() -> None:
    room = Room()
    room.queue.deleted = True
    play(room.of_queues.purge(TOPIC, 0, TO_END))
    assert room.purges == [(0, READABLE)]


def test_where_a_stream_starts_is_on_the_disk_before_it_is_told() -> None:
    room = Room()
    stream = StreamQueue.__new__(StreamQueue)
    stream.name = "q"
    stream.declared = room.queue.declared
    room.host.queues["q"] = stream
    room.log.delete_records = lambda before: before + 1

    async def purge() -> int:
        purging = asyncio.create_task(room.of_queues.purge(TOPIC, 0, 7))
        await asyncio.sleep(0.02)
        assert not purging.done()
        (done,) = room.checkpoints
        done(None)
        return await purging

    assert play(purge()) == 8, "what the log says"
