"""What was declared, put back at a start: what is left alone, what goes, what cannot be read."""

import asyncio
from collections.abc import Iterable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from headrace.model.errors import ApiError, ErrorCode, HeadraceError
from headrace.ports.store import NoNode
from headrace.queue_stores.log.durable_messages import DurableMessages
from headrace.queue_stores.log.queue_logs import QueueLogs
from headrace.queue_stores.log.settled_files import SettledFiles, settled_path
from headrace.queues.model.declarations import DeclaredQueue
from headrace.queues.model.stored_model import ExchangeRecord, QueueRecord, Record
from headrace.queues.model.stored_records import record_key
from headrace.vhosts import restore
from headrace.vhosts.declarations.stored_changes import Loaded
from headrace.vhosts.declarations.takeover import DeclarationNodes
from headrace.vhosts.policies.visits import PolicyVisits
from headrace.vhosts.restore import Restoring
from tests.support.amqp.channels import QueueRoom
from tests.support.log.log import World

if TYPE_CHECKING:
    from headrace.queues.engine.virtual_hosts import VirtualHosts

EXCHANGE = ExchangeRecord("e", "direct", False, False, {})
QUEUE = QueueRecord("q", False, {})


class Stored:
    """A log of declarations, a broker that starts.

    `DeclarationLog`, `Store`, `DurableQueues`, `QueueTopics`.
    """

    def __init__(self, *records: Record, vhost: str = "/") -> None:
        self.records = {record_key(vhost, record): (vhost, record) for record in records}
        self.all_read, self.is_empty = True, False
        self.topics: dict[str, Any] = {}
        self.known: list[bytes] = []
        self.doomed: list[str] = []
        self.made: list[DurableMessages] = []
        self.partition_error = ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        self.world = World()
        self.hosts: VirtualHosts = QueueRoom().broker.virtual_hosts
        self.of_queues = self

    async def children(self, path: str) -> list[str]:
        """No earlier version was here."""
        raise NoNode(path)

    async def load(self) -> Loaded:
        return Loaded(dict(self.records), self.all_read, self.is_empty)

    def know(self, keys: Iterable[bytes]) -> None:
        self.known += keys

    def doom(self, topics: Any) -> None:
        self.doomed += topics

    def make_store(self, vhost: str, queue: DeclaredQueue, priority: int) -> DurableMessages:
        disk, clock = self.world.disk, self.world.clock
        logs = QueueLogs(SettledFiles(disk, clock), clock, lambda messages: None)
        self.made.append(DurableMessages(logs, vhost, queue, priority))
        return self.made[-1]

    def partition(self, topic: str, priority: int) -> HeadraceError:
        return self.partition_error

    def restore(self) -> None:
        """Start the broker."""
        broker: Any = SimpleNamespace(
            image=SimpleNamespace(topics=self.topics),
            disk=SimpleNamespace(run=lambda work, done: done(work())),
        )
        itself: Any = self
        nodes = DeclarationNodes(itself)
        visits = PolicyVisits(self.world.clock, self.hosts)
        asyncio.run(Restoring(broker, itself, self.hosts, itself, nodes, visits).restore())


def test_topics_of_nobody_go_and_only_those_that_are_kept_for_queues() -> None:
    here = Stored(QUEUE)
    here.topics = dict.fromkeys(
        (
            "orders",
            "__consumer_offsets",
            "__amqp.declarations",
            "__amqp.queue.q",
            "__amqp.queue.gone",
        ),
        SimpleNamespace(partitions=[]),
    )
    here.restore()
    assert here.doomed == ["__amqp.queue.gone"]


def test_the_topic_of_a_queue_in_another_vhost_stays() -> None:
    here = Stored(QUEUE, vhost="shop")
    here.topics = dict.fromkeys(
        ("__amqp.vhost.shop.q", "__amqp.queue.q"), SimpleNamespace(partitions=[])
    )
    here.restore()
    assert here.doomed == ["__amqp.queue.q"]
    assert list(here.hosts.hosts["shop"].queues) == ["q"]


@pytest.mark.parametrize(("all_read", "is_empty"), [(False, False), (True, True)])
def test_no_topic_is_deleted_while_declarations_are_unknown(all_read: bool, is_empty: bool) -> None:
    here = Stored(QUEUE, EXCHANGE)
    here.all_read, here.is_empty = all_read, is_empty
    here.topics["__amqp.queue.gone"] = SimpleNamespace(partitions=[])
    here.restore()
    assert here.known == list(here.records)
    assert here.doomed == [], "what cannot be read may be its queue"


def test_a_queue_that_cannot_be_restored_keeps_no_other_from_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bad = QueueRecord("bad", False, {"x-max-length": -1})
    here = Stored(bad, ExchangeRecord("none", "nonsense", False, False, {}), QUEUE)
    here.topics["__amqp.queue.bad"] = SimpleNamespace(partitions=[])
    here.restore()
    assert list(here.hosts.hosts["/"].queues) == ["q"]
    assert here.doomed == [], "its messages stay"
    assert "the declaration of 'bad' (vhost '/') is not restored" in caplog.text
    assert here.hosts.hosts["/"].model.exchanges["none"].exchange_type.name == "nonsense"
    assert "this broker does not have the exchange type 'nonsense'" in caplog.text


def test_a_queue_whose_partition_is_not_to_be_had_refuses_and_does_not_wait() -> None:
    here = Stored(QueueRecord("q", False, {"x-max-priority": 1}))
    here.topics["__amqp.queue.q"] = SimpleNamespace(partitions=[0, 1])
    here.restore()
    told: list[bool] = []
    for store in here.made:
        store.when_stored(told.append)
    assert told == [False, False]
    assert [store.priority for store in here.made] == [0, 1]


# What is settled


class Refusing:
    """A disk on which nothing can be read."""

    def open(self, path: str, *, writable: bool) -> Any:
        raise OSError("gone")


def test_what_is_settled_and_cannot_be_read_is_not_taken_for_nothing() -> None:
    partition: Any = SimpleNamespace(log=SimpleNamespace(directory="/data/t-0"))
    disk: Any = Refusing()
    assert restore._settled_of(disk, partition) is None
    world = World()
    world.log()
    assert restore._settled_of(world.disk, partition) == b"", "there is no such file"
    world.disk.replace(settled_path("/data/t-0"), b"some")
    assert restore._settled_of(world.disk, partition) == b"some"


# Groups


@pytest.mark.parametrize("count", [0, 1, 3, 4, 12, 13, 25])
def test_all_are_loaded_some_of_them_at_a_time(count: int) -> None:
    loaded: list[int] = []
    running = most = 0

    async def load(items: Any) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        assert len(items) <= 3
        await asyncio.sleep(0)
        loaded.extend(items)
        running -= 1

    asyncio.run(restore._in_groups(range(count), 3, load))
    assert sorted(loaded) == list(range(count))
    assert most == min(restore.GROUPS_AT_ONCE, -(-count // 3))
