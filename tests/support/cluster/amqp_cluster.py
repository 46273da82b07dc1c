"""Real brokers that serve AMQP together, on one real ZooKeeper, and pika's connections to them."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingChannel

from headrace.queues.queue_names import queue_topic
from tests.support.cluster.broker_cluster import SESSION_MS, BrokerCluster
from tests.support.processes.process import free_port


class AmqpCluster(BrokerCluster):
    """Brokers with an AMQP listener each, whose user is guest."""

    def __init__(
        self,
        place: Path,
        hosts: str,
        count: int = 3,
        session_ms: int = SESSION_MS,
        **settings: Any,
    ) -> None:
        self.amqp_ports = [free_port() for _ in range(count)]
        super().__init__(
            place,
            hosts,
            count,
            self._listeners,
            zookeeper_session_timeout_ms=session_ms,
            amqp_guest="true",
            **settings,
        )

    def _listeners(self, number: int) -> dict[str, Any]:
        port = free_port()
        listeners = f"PLAINTEXT://127.0.0.1:{port},AMQP://127.0.0.1:{self.amqp_ports[number]}"
        return {"port": port, "listeners": listeners}

    def connect_to(self, number: int) -> pika.BlockingConnection:
        """Return a connection to a broker."""
        address = pika.ConnectionParameters(
            "127.0.0.1", self.amqp_ports[number], blocked_connection_timeout=60, heartbeat=60
        )
        return pika.BlockingConnection(address)

    @contextmanager
    def channel(self, number: int, *, confirms: bool = False) -> Iterator[BlockingChannel]:
        """Open a channel on a connection of its own, which is closed in the end."""
        connection = self.connect_to(number)
        try:
            channel = connection.channel()
            if confirms:
                channel.confirm_delivery()
            yield channel
        finally:
            if connection.is_open:
                connection.close()

    def leader_of(self, queue: str) -> int:
        """Return the broker that leads a queue; -1: none does."""
        return self.leader(queue_topic("/", queue))

    def until_queue_led(self, queue: str, by_others_than: Collection[int] = ()) -> int:
        """Wait until a broker leads a queue, and none of these; return it."""
        self.until_led(queue_topic("/", queue), by_others_than)
        return self.leader_of(queue)
