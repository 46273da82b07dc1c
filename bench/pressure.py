"""Clients of a broker whose machine drowns in dirty pages: does the event loop stall?

    python -m bench.pressure [--seconds 15] [--gigabytes 4] [--page-cache] [--acks -1]

A producer keeps its batches coming. Beside it a client asks every few milliseconds for something
that needs no disk (ApiVersions); how long it waits is how late the loop is, and a little more.
First idle, then while another process writes so many gigabytes to a file in /tmp over and over, as
fast as the kernel lets it. One line of JSON for each.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import rawload
from bench.subjects import Broker, Headrace

ASK_SECONDS = 0.003
TOPIC = "pressed"
BLOCK_BYTES = 4 << 20
API_VERSIONS = 18
DIRTY_SECONDS = 3.0
"""Until the kernel begins to hold writers up."""
_DIRTY = """
import os, sys
path, size, block = sys.argv[1], int(sys.argv[2]), bytes(int(sys.argv[3]))
fd = os.open(path, os.O_RDWR | os.O_CREAT)
while True:
    for at in range(0, size, len(block)):
        os.pwrite(fd, block, at)
"""


@contextmanager
def dirt(gigabytes: float) -> Iterator[None]:
    """Pages are dirtied as fast as it goes, in a file that never grows beyond `gigabytes`."""
    handle, name = tempfile.mkstemp(prefix="bench-pressure-")
    os.close(handle)
    size = str(int(gigabytes * (1 << 30)))
    process = subprocess.Popen([sys.executable, "-c", _DIRTY, name, size, str(BLOCK_BYTES)])
    try:
        yield
    finally:
        process.kill()
        process.wait()
        Path(name).unlink()


class Producer(threading.Thread):
    """One request after the other, until stopped."""

    def __init__(self, bootstrap: str, batch_bytes: int, acks: int) -> None:
        super().__init__(daemon=True)
        records = rawload.record_batch(min(batch_bytes, 1000), batch_bytes)
        self._frame = rawload.produce_frame(TOPIC, 0, records, acks)
        self._answer_bytes = rawload.produce_answer_bytes(TOPIC)
        self._address = bootstrap
        self.stopped = False
        self.taken: list[float] = []
        """Seconds each request took."""

    def run(self) -> None:
        into = memoryview(bytearray(1 << 16))
        with rawload.connect(self._address) as link:
            while not self.stopped:
                began = time.monotonic()
                link.sendall(self._frame)
                rawload.receive(link, into)
                self.taken.append(time.monotonic() - began)
                time.sleep(0.001)


def asked(bootstrap: str, seconds: float) -> list[float]:
    """How long each answer took, in seconds."""
    request = rawload.frame(API_VERSIONS, 0, b"")
    into = memoryview(bytearray(1 << 16))
    taken = []
    end = time.monotonic() + seconds
    with rawload.connect(bootstrap) as link:
        while (began := time.monotonic()) < end:
            link.sendall(request)
            rawload.receive(link, into)
            taken.append(time.monotonic() - began)
            time.sleep(ASK_SECONDS)
    return taken


def summary(taken: list[float]) -> dict[str, float]:
    """Milliseconds."""
    steps = sorted(taken)
    return {
        "p50 ms": round(steps[len(steps) // 2] * 1e3, 2),
        "p99 ms": round(steps[len(steps) * 99 // 100] * 1e3, 2),
        "max ms": round(steps[-1] * 1e3, 1),
    }


def seen(broker: Broker, seconds: float, batch_bytes: int, acks: int) -> dict[str, float]:
    """What the producer and the other client see in so many seconds."""
    producer = Producer(broker.bootstrap, batch_bytes, acks)
    producer.start()
    loop = asked(broker.bootstrap, seconds)
    producer.stopped = True
    producer.join(60)
    figures = {f"loop {name}": value for name, value in summary(loop).items()}
    figures["stalls > 50 ms"] = sum(one > 0.05 for one in loop)
    return {**figures, **{f"produce {name}": n for name, n in summary(producer.taken).items()}}


def measure(
    broker: Broker, *, seconds: float, gigabytes: float, batch_bytes: int, acks: int
) -> Iterator[tuple[str, dict[str, float]]]:
    """First idle, then beside the writer."""
    with broker:
        broker.create_topic(TOPIC, 1)
        yield "idle", seen(broker, seconds, batch_bytes, acks)
        with dirt(gigabytes):
            time.sleep(DIRTY_SECONDS)
            yield "pressure", seen(broker, seconds, batch_bytes, acks)


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.pressure", description=__doc__)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--gigabytes", type=float, default=4.0)
    parser.add_argument("--page-cache", action="store_true", help="log.flush.on.ack=false")
    parser.add_argument("--batch-bytes", type=int, default=900_000)
    parser.add_argument("--acks", type=int, default=1, choices=[-1, 1])
    given = parser.parse_args()
    for name, figures in measure(
        Headrace(durable=not given.page_cache),
        seconds=given.seconds,
        gigabytes=given.gigabytes,
        batch_bytes=given.batch_bytes,
        acks=given.acks,
    ):
        print(f"{name:8}", json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
