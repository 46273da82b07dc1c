"""Rows of queues: what programs that speak AMQP see of a broker that stays up.

All messages are persistent, all queues durable; classic ones are confirmed from the page cache,
quorum ones once they are on disk, with either broker.
"""

from collections.abc import Callable
from dataclasses import dataclass

from bench import queue_load
from bench.memory import touch_memory
from bench.queue_brokers import QueueHeadrace, QueueRabbit, queue_type
from bench.report import GENERATOR_SHARE, Goal
from bench.rows import Figures, Row
from bench.subjects import Broker

SECONDS = 4.0
WINDOW = 1000
"""Messages that are not confirmed yet, of one publisher."""
PREFETCH = 200
RATE = 5000
LATENCY_SECONDS = 6.0
FANOUT = 10
DRAINED = {False: 400_000, True: 200_000}
"""Messages in the queue that is drained; a quorum queue is filled slowly."""
_TOUCHED_BYTES = 1 << 30


@dataclass(frozen=True)
class QueueRow(Row):
    """A row with a queue of its own."""

    fanout: int = 0
    """So many queues, bound to an exchange that is named as the queue would be."""

    @property
    def title(self) -> str:
        return f"{self.name} [{queue_type(self.durable) or 'classic'}]"

    def run(self, broker: Broker, number: int) -> Figures:
        queue = f"bench-{number}"
        try:
            return self.measure(broker, queue)
        finally:
            if self.measure is not memory:
                queue_load.run("remove", reached(broker), queue=queue, fanout=self.fanout)


def reached(broker: Broker) -> str:
    """Where a broker listens for AMQP. TypeError: nowhere."""
    if not isinstance(broker, QueueHeadrace | QueueRabbit):
        raise TypeError(f"{broker.name} has no listener for AMQP")
    return broker.amqp_address


def load(broker: Broker, queue: str, what: str, **options: object) -> queue_load.Load:
    """Have the generator do something with a queue of the pairing's type."""
    kind = queue_type(broker.durable)
    return queue_load.run(what, reached(broker), queue=queue, kind=kind, **options)


def moved(broker: Broker, queue: str, what: str, **options: object) -> Figures:
    """Messages a second, what one costs the broker, and how busy a core the generator was."""
    cpu = broker.cpu_seconds()
    done = load(broker, queue, what, seconds=SECONDS, prefetch=PREFETCH, **options)
    cpu = broker.cpu_seconds() - cpu
    return {
        "messages/s": done.per_second,
        "CPU-us/message": cpu / done.messages * 1e6,
        GENERATOR_SHARE: 100 * done.cpu / done.seconds,
    }


def publish(size: int, window: int, fanout: int = 0) -> Callable[[Broker, str], Figures]:
    def measure(broker: Broker, queue: str) -> Figures:
        if size >= 1000:
            touch_memory(_TOUCHED_BYTES)
        return moved(broker, queue, "publish", size=size, window=window, fanout=fanout)

    return measure


def drain(broker: Broker, queue: str) -> Figures:
    messages = DRAINED[broker.durable]
    load(broker, queue, "publish", messages=messages, window=WINDOW)
    return moved(broker, queue, "drain", messages=messages)


def at_once(broker: Broker, queue: str) -> Figures:
    return moved(broker, queue, "both", window=WINDOW)


def latency(broker: Broker, queue: str) -> Figures:
    done = load(
        broker, queue, "latency",
        seconds=LATENCY_SECONDS, rate=RATE, window=2 * RATE, prefetch=PREFETCH,
    )  # fmt: skip
    return {"p50 ms": done.p50, "p99 ms": done.p99}


def memory(broker: Broker, queue: str) -> Figures:
    del queue
    return {"RSS MB": broker.rss_megabytes()}


_FASTER = {"messages/s": Goal(least=1.2), "CPU-us/message": Goal(most=0.7)}
_NO_SLOWER = {"messages/s": Goal(least=1)}


def queue_rows(durable: bool) -> list[Row]:
    """The rows of one pairing, in the order in which they run."""
    return [
        QueueRow("publish 16 B", durable, publish(16, 0), goals=_FASTER),
        QueueRow("publish 16 B, confirmed", durable, publish(16, WINDOW), goals=_FASTER),
        QueueRow("publish 1 KB, confirmed", durable, publish(1024, WINDOW), goals=_FASTER),
        QueueRow("drain, each acknowledged, prefetch 200", durable, drain, goals=_FASTER),
        QueueRow("publish and consume at once", durable, at_once, goals=_FASTER),
        QueueRow("5,000 msg/s, sent to received", durable, latency, goals={"p99 ms": Goal(most=2)}),
        QueueRow(
            "fan-out to 10 queues, confirmed",
            durable,
            publish(16, WINDOW, FANOUT),
            goals=_NO_SLOWER,
            fanout=FANOUT,
        ),
        QueueRow("memory after these rows", durable, memory, goals={"RSS MB": Goal(most=0.5)}),
    ]


def warm_up(broker: Broker) -> None:
    """Publish and drain: a JIT compiles what the rows go through."""
    load(broker, "bench-warm", "publish", seconds=1, window=WINDOW)
    load(broker, "bench-warm", "both", seconds=1, window=WINDOW)
    queue_load.run("remove", reached(broker), queue="bench-warm")
