"""A broker with very many partitions: how long it takes to make them and to start again with them.

    python -m bench.partitions [topics] [partitions of each]

Each partition gets a few batches. Then, after a clean stop and after a kill: seconds from exec to
the first acknowledged produce, resident memory, open files.
"""

import json
import selectors
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from statistics import median

from confluent_kafka.admin import AdminClient, NewTopic

from bench import rawload
from bench.subjects import Broker, Headrace

BATCHES = 3
CONNECTIONS = 4
IN_FLIGHT = 50
SETTLE_SECONDS = 7.0
"""A kill comes after the checkpoints, as it mostly does."""


def topic_names(count: int) -> list[str]:
    return [f"many-{number:03d}" for number in range(count)]


def create(broker: Broker, topics: Sequence[str], partitions: int) -> float:
    """Make all topics, one request each; seconds."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    began = time.monotonic()
    for topic in topics:
        wanted = NewTopic(topic, partitions, 1)
        for future in admin.create_topics([wanted], operation_timeout=60).values():
            future.result(120)
    return time.monotonic() - began


def create_at_once(broker: Broker, count: int) -> float:
    """Make so many topics of one partition by one request; seconds."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    wanted = [NewTopic(f"at-once-{number}", 1, 1) for number in range(count)]
    admin.list_topics(timeout=10)  # connected
    began = time.monotonic()
    for future in admin.create_topics(wanted, operation_timeout=60).values():
        future.result(120)
    return time.monotonic() - began


def fill(broker: Broker, topics: Sequence[str], partitions: int) -> float:
    """Append to every partition, acks=all, a few batches in turn; seconds."""
    records = rawload.record_batch(100, 1000)
    frames = [
        rawload.produce_frame(topic, index, records, -1)
        for _ in range(BATCHES)
        for topic in topics
        for index in range(partitions)
    ]
    answer_bytes = rawload.produce_answer_bytes(topics[0])
    began = time.monotonic()
    waiting: Iterator[bytes] = iter(frames)
    selector = selectors.DefaultSelector()
    left = len(frames)
    scratch = bytearray(1 << 16)
    partial = {}
    for _ in range(CONNECTIONS):
        link = rawload.connect(broker.bootstrap)
        selector.register(link, selectors.EVENT_READ)
        partial[link] = 0
        for _ in range(IN_FLIGHT):
            link.sendall(next(waiting))
    while left:
        for key, _ in selector.select():
            link = key.fileobj  # type: ignore[assignment]
            got = link.recv_into(scratch)
            if not got:
                raise ConnectionError("the broker closed the connection")
            whole, partial[link] = divmod(partial[link] + got, answer_bytes)
            left -= whole
            for _ in range(whole):
                frame = next(waiting, None)
                if frame is not None:
                    link.sendall(frame)
    return time.monotonic() - began


def open_files(broker: Broker) -> int:
    return len(list(Path(f"/proc/{broker.process.pid}/fd").iterdir()))


def restart(broker: Broker, number: signal.Signals) -> dict[str, float]:
    """End the broker by a signal, start it again, and see it acknowledge."""
    began = time.monotonic()
    broker.process.send_signal(number)
    broker.process.wait(120)
    ended = time.monotonic() - began
    broker.start()
    broker.wait_ready()
    first = broker.first_acknowledged_produce()
    return {
        "stop s": round(ended, 2),
        "exec to first ack s": round(first, 2),
        "CPU s": broker.cpu_seconds(),
        "RSS MB": round(broker.rss_megabytes(), 1),
        "open files": open_files(broker),
    }


def restarts(
    broker_type: Callable[[bool], Broker], topic_count: int, partitions: int, rounds: int
) -> Generator[dict[str, float]]:
    """What `bench` reports of so many partitions, for each round: one clean stop, one kill."""
    topics = topic_names(topic_count)
    with broker_type(True) as broker:
        create(broker, topics, partitions)
        before = [rawload.end_offsets(broker.bootstrap, one, partitions) for one in topics]
        fill(broker, topics, partitions)
        for topic, end in zip(topics, before, strict=True):
            if rawload.end_offsets(broker.bootstrap, topic, partitions) == end:
                raise RuntimeError(f"{broker.name}: nothing was written to {topic}")
        for _ in range(rounds):
            time.sleep(SETTLE_SECONDS)
            stopped = restart(broker, signal.SIGTERM)
            time.sleep(SETTLE_SECONDS)
            killed = restart(broker, signal.SIGKILL)
            yield {
                "stopped: s to first ack": stopped["exec to first ack s"],
                "killed: s to first ack": killed["exec to first ack s"],
                "RSS MB": max(stopped["RSS MB"], killed["RSS MB"]),
                "open files": max(stopped["open files"], killed["open files"]),
            }


def main(topic_count: int, partitions: int) -> None:
    topics = topic_names(topic_count)
    with Headrace(durable=True) as broker:
        print(json.dumps({"create s": round(create(broker, topics, partitions), 2)}))
        filled = fill(broker, topics, partitions)
        print(
            json.dumps(
                {
                    "fill s": round(filled, 2),
                    "requests/s": round(topic_count * partitions * BATCHES / filled),
                    "RSS MB": round(broker.rss_megabytes(), 1),
                    "open files": open_files(broker),
                }
            )
        )
        for how in (signal.SIGTERM, signal.SIGKILL):
            firsts = []
            for _ in range(3):
                time.sleep(SETTLE_SECONDS)
                figures = restart(broker, how)
                firsts.append(figures["exec to first ack s"])
                print(how.name, json.dumps(figures))
            print(how.name, "median exec to first ack", median(firsts), "s")


if __name__ == "__main__":
    main(
        int(sys.argv[1]) if len(sys.argv) > 1 else 100,
        int(sys.argv[2]) if len(sys.argv) > 2 else 100,
    )
