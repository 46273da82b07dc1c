"""Rows of RocketMQ's protocol: programs that send and consume at a broker that stays up.

Bodies have 1 KB, topics 4 queues, as a topic that a producer creates. ASYNC_FLUSH, RocketMQ's
default, is compared with the page cache of ours, SYNC_FLUSH with a flush before the answer.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from bench import rocketmq_load
from bench.memory import touch_memory
from bench.report import GENERATOR_SHARE, Goal
from bench.rocketmq_brokers import RocketmqHeadrace, RocketmqPeer, flush_type
from bench.rocketmq_load import Load
from bench.rows import Figures, Row
from bench.subjects import Broker

SECONDS = 5.0
QUEUES = 4
WINDOW = 512
"""Sends of one connection that are not answered yet."""
RATE = 1000
LATENCY_SECONDS = 8.0
PULLED = 400_000
"""Messages in the topic that is pulled."""
WARM_PULLED = 100_000
RSS, ANONYMOUS = "RSS MB", "RSS without files, MB"
_TOUCHED_BYTES = 1 << 30
Served = RocketmqHeadrace | RocketmqPeer


@dataclass(frozen=True)
class RocketmqRow(Row):
    """A row with a topic of its own, which is created by RocketMQ's protocol."""

    @property
    def title(self) -> str:
        return f"{self.name} [{flush_type(self.durable)}]"

    def run(self, broker: Broker, number: int) -> Figures:
        if self.measure is memory:
            return self.measure(broker, "")
        topic = f"bench-{number}" if number >= 0 else f"warm{-number}"
        address = served(broker).name_server
        rocketmq_load.run("create", address, topic=topic, queues=QUEUES)
        try:
            return self.measure(broker, topic)
        finally:
            rocketmq_load.run("remove", address, topic=topic)


def served(broker: Broker) -> Served:
    """Return a broker of RocketMQ's clients. TypeError: it has no such listener."""
    if not isinstance(broker, RocketmqHeadrace | RocketmqPeer):
        raise TypeError(f"{broker.name} has no listener for RocketMQ's clients")
    return broker


def generated(broker: Broker, topic: str, what: str, **options: object) -> Load:
    """Have the generator do something with a topic of 4 queues."""
    return rocketmq_load.run(
        what, served(broker).name_server, topic=topic, queues=QUEUES, **options
    )


def figures(broker: Broker, work: Callable[[], Load]) -> Figures:
    """Messages a second, the broker's CPU for one, and how busy a core the client was."""
    cpu = broker.cpu_seconds()
    done = work()
    cpu = broker.cpu_seconds() - cpu
    return {
        "messages/s": done.per_second,
        "CPU-us/message": cpu / done.messages * 1e6,
        GENERATOR_SHARE: 100 * done.cpu / done.seconds,
    }


def java(what: str, *words: object) -> Callable[[Broker, str], Figures]:
    def measure(broker: Broker, topic: str) -> Figures:
        touch_memory(_TOUCHED_BYTES)
        client = served(broker).client
        return figures(broker, lambda: client.run(what, topic, *words, SECONDS))

    return measure


def push(messages: int) -> Callable[[Broker, str], Figures]:
    def measure(broker: Broker, topic: str) -> Figures:
        touch_memory(_TOUCHED_BYTES)
        stored = generated(broker, topic, "send", messages=messages).messages
        client = served(broker).client
        return figures(broker, lambda: client.run("push", topic, stored))

    return measure


def latency(broker: Broker, topic: str) -> Figures:
    done = served(broker).client.run("latency", topic, RATE, LATENCY_SECONDS)
    return {"p50 ms": done.p50, "p99 ms": done.p99}


def send(broker: Broker, topic: str) -> Figures:
    touch_memory(_TOUCHED_BYTES)
    return figures(broker, lambda: generated(broker, topic, "send", seconds=SECONDS, window=WINDOW))


def pull(messages: int) -> Callable[[Broker, str], Figures]:
    def measure(broker: Broker, topic: str) -> Figures:
        touch_memory(_TOUCHED_BYTES)
        stored = generated(broker, topic, "send", messages=messages).messages
        return figures(broker, lambda: generated(broker, topic, "pull", messages=stored))

    return measure


def commit(broker: Broker, topic: str) -> Figures:
    return figures(
        broker, lambda: generated(broker, topic, "commit", seconds=SECONDS, window=WINDOW)
    )


def memory(broker: Broker, topic: str) -> Figures:
    del topic
    return {
        RSS: broker.rss_megabytes(),
        ANONYMOUS: served(broker).anonymous_megabytes(),
    }


_FASTER = {"messages/s": Goal(least=1.2)}
_FRAMES = {"messages/s": Goal(least=1.5), "CPU-us/message": Goal(most=0.5)}


def rocketmq_rows(durable: bool, scale: float = 1.0) -> list[Row]:
    """The rows of one pairing, in the order in which they run."""
    pulled = int(PULLED * scale)

    def row(
        name: str, measure: Callable[[Broker, str], Figures], goals: dict[str, Goal] | None = None
    ) -> Row:
        return RocketmqRow(name, durable, measure, goals=goals or {}, seconds_max=240)

    sends = [
        row("Java client, sync sends, 1 thread", java("sync", 1), _FASTER),
        row("Java client, sync sends, 16 threads", java("sync", 16), _FASTER),
        row("Java client, async sends, 512 in flight", java("async", WINDOW), _FASTER),
        row("prepared frames, sends, 512 in flight", send, _FRAMES),
    ]
    if durable:
        return sends
    return [
        *sends,
        row("Java client, push, pulls of 32", push(pulled), _FASTER),
        row("Java client, 1,000 msg/s, sent to received", latency, {"p99 ms": Goal(most=0.67)}),
        row("prepared frames, pulls of 32", pull(pulled), _FRAMES),
        row("prepared frames, offsets stored, 512 in flight", commit),
        row("memory after these rows", memory, {RSS: Goal(most=0.15)}),
    ]


def warm_up(broker: Broker) -> None:
    """Send and consume by both clients: JVMs compile what the rows go through."""
    warming = [java("sync", 16), java("async", WINDOW), send]
    if not broker.durable:
        warming += [push(WARM_PULLED), pull(WARM_PULLED)]
    for number, measure in enumerate(warming):
        with suppress(RuntimeError):  # a cold broker may refuse many
            RocketmqRow("warm-up", broker.durable, measure).run(broker, -1 - number)
