"""A durable queue whose leader changes: the next one has the log and the file of settlements."""

from typing import TYPE_CHECKING, Any

from headrace.queue_stores.memory.memory_use import MemoryUse
from headrace.queues.engine.hosted_queue import stores_in_memory
from headrace.queues.engine.virtual_hosts import VirtualHosts
from headrace.queues.port import Queue
from headrace.remote_queues.home.remote_queue import RemoteQueue
from headrace.remote_queues.leader.queue_sessions import QueueSessions
from headrace.testing.clock import SimClock
from tests.support.queues.lives import BrokerLife
from tests.support.queues.port_place import persistent
from tests.support.queues.remote_pair import Network, RemotePlace

if TYPE_CHECKING:
    from tests.support.amqp.deliveries import Delivery

PRODUCER_ID = 7
SETTLED_SECONDS = 0.5
"""Seconds after which settlements are on the disk."""


class MovingPlace(RemotePlace):
    """A queue of leaders, one after the other, and channels of another broker."""

    def __init__(
        self, arguments: dict[str, object] | None = None, *, producer_id: int = PRODUCER_ID
    ) -> None:
        self.life = BrokerLife({"q": arguments or {}})
        self._sent: list[Delivery] = []
        self.cancelled: list[str] = []
        self.channel = self.new_channel()
        self.sessions = self._new_sessions()
        self.network = Network(self.sessions)
        self.clock = clock = SimClock()
        """The home's."""
        memory = stores_in_memory(MemoryUse())
        self.homes = VirtualHosts(clock, lambda: bytes(16), memory)
        self.home = self.homes.hosts["/"]
        led = self.life.queue()
        for store in led.late_stores:
            store.want_log()  # a queue that has a leader has its log
        self.life.settle()
        self.remote = RemoteQueue(
            "/",
            led.declared,
            led.title,
            clock,
            moves=True,
            producer_id=producer_id,
            crowded=self.life.logs.crowded,
            touched=self.home.touched,
        )
        self.home.targets["q"] = self.remote
        self.begin()

    def _new_sessions(self) -> QueueSessions:
        hosts = self.life.hosts
        return QueueSessions(hosts.hosts, hosts.deadlines, hosts.turns.soon)

    @property
    def now(self) -> float:
        return self.clock.monotonic()

    @property
    def queue(self) -> Queue:
        return self.remote

    @property
    def led(self) -> tuple[int, int]:
        """Numbers of ready and of unacknowledged messages, at the leader."""
        queue = self.life.queue()
        return queue.ready, queue.unacked

    def run_leader(self) -> None:
        self.life.end_pass()
        self.life.settle()

    def wait(self, seconds: float) -> None:
        self.life.wait(seconds)
        self.clock.advance(seconds)

    def delete(self) -> None:
        self.life.host.delete_queue("q", None, if_unused=False, if_empty=False)
        self.settle()

    def settle(self) -> None:
        for _ in range(10):
            self.run()
            self.wait(SETTLED_SECONDS / 10)

    def move(self, *, settled: bool = True) -> None:
        """Kill the leader; the next one begins with what was written to the disk.

        `settled`: settlements of before are written.
        """
        if settled:
            self.wait(SETTLED_SECONDS)
        self.life = self.life.killed()
        self.sessions = self.network.sessions = self._new_sessions()
        self.network.session.end()

    def moved(self, *, settled: bool = True) -> None:
        """Change the leader, and begin a session with the next one."""
        self.move(settled=settled)
        self.begin()

    def publish_soon(self, *bodies: str, priority: int = 0) -> list[Any]:
        """Publish without waiting; return the list in which the unstored numbers will be."""
        told: list[Any] = []
        for body in bodies:
            self.remote.publish(persistent(body, priority), 0.0)
        self.remote.when_stored(told.append)
        return told
