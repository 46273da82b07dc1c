"""Produce → consume latency at a steady rate, by two librdkafka clients in processes of their own.

`python -m bench.latency consume|produce …` are those processes; a `Probe` runs both, and tells the
percentiles of any span of time. All clocks are CLOCK_MONOTONIC, which a machine's processes share.
"""

import struct
import subprocess
import sys
import threading
import time
from array import array
from dataclasses import dataclass

from confluent_kafka import Consumer, Producer, TopicPartition

STAMP = struct.Struct(">q")
RECORD_BYTES = 100
WARM_UP_SHARE = 0.2
END = -1
"""Stands in the last record for the time of its sending."""
_GRACE_SECONDS = 20.0


@dataclass(frozen=True)
class Percentiles:
    """Milliseconds."""

    p50: float
    p99: float


def produce(bootstrap: str, topic: str, rate: int, seconds: float) -> None:
    """Send `rate` records a second, each with the time of its sending, until the input ends."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0, "log_level": 0}
    )
    enough = threading.Event()

    def listen() -> None:
        sys.stdin.read()
        enough.set()

    threading.Thread(target=listen, daemon=True).start()
    padding = bytes(RECORD_BYTES - STAMP.size)
    started = time.monotonic()
    for number in range(int(rate * seconds)):
        due = started + number / rate
        while (ahead := due - time.monotonic()) > 0:
            producer.poll(0)
            time.sleep(min(ahead, 0.0005))
        if enough.is_set():
            break
        producer.produce(topic, STAMP.pack(time.monotonic_ns()) + padding, partition=0)
    producer.produce(topic, STAMP.pack(END), partition=0)
    producer.flush(30)


def consume(bootstrap: str, topic: str, seconds_max: float) -> None:
    """Write when each record was sent and how long it took, both in ns, until the last one."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    sys.stdout.buffer.write(b"ready\n")
    sys.stdout.buffer.flush()
    taken = array("q")
    deadline = time.monotonic() + seconds_max
    while time.monotonic() < deadline:
        # One at a time: consume(n, …) returns only once it has n, or the time is over.
        message = consumer.poll(0.05)
        if message is not None and message.error() is None:
            sent = STAMP.unpack_from(message.value())[0]
            if sent == END:
                break
            taken.extend((sent, time.monotonic_ns() - sent))
    else:
        taken = array("q")
    consumer.close()
    sys.stdout.buffer.write(taken.tobytes())


class Probe:
    """Both clients, under way from the start. `stop` before asking for percentiles."""

    def __init__(self, bootstrap: str, topic: str, *, rate: int, seconds_max: float) -> None:
        this = [sys.executable, "-m", "bench.latency"]
        limit = str(seconds_max + _GRACE_SECONDS)
        self._consumer = subprocess.Popen(
            [*this, "consume", bootstrap, topic, limit], stdout=subprocess.PIPE
        )
        assert self._consumer.stdout is not None
        self._consumer.stdout.readline()
        time.sleep(1)
        self._producer = subprocess.Popen(
            [*this, "produce", bootstrap, topic, str(rate), str(seconds_max)],
            stdin=subprocess.PIPE,
        )
        self._seconds_max = seconds_max
        self._samples = array("q")

    def stop(self, *, at_once: bool = True) -> None:
        """Let it come to its end, `at_once` or at its time, and gather what arrived."""
        try:
            if at_once and self._producer.stdin is not None:
                self._producer.stdin.close()
            self._producer.wait(self._seconds_max + _GRACE_SECONDS)
            told = self._consumer.communicate(timeout=self._seconds_max + _GRACE_SECONDS)[0]
        finally:
            for one in (self._producer, self._consumer):
                one.kill()
                one.wait()
        self._samples = array("q")
        self._samples.frombytes(told)

    def percentiles(self, since: float = 0.0, until: float = float("inf")) -> Percentiles:
        """Of what was sent between these times (`time.monotonic`). RuntimeError: nothing was."""
        sent, took = self._samples[::2], self._samples[1::2]
        steady = sorted(
            took[at] for at, one in enumerate(sent) if since <= one / 1e9 <= until
        )  # fmt: skip
        if not steady:
            raise RuntimeError("no record of the latency probe came back, or not all of them")
        return Percentiles(steady[len(steady) // 2] / 1e6, steady[len(steady) * 99 // 100] / 1e6)

    def started(self) -> float:
        """When the first record was sent."""
        return self._samples[0] / 1e9 if self._samples else 0.0


def measure(bootstrap: str, topic: str, *, rate: int, seconds: float) -> Percentiles:
    """Percentiles at `rate` records a second, the warm-up left out. RuntimeError: some are lost."""
    probe = Probe(bootstrap, topic, rate=rate, seconds_max=seconds)
    probe.stop(at_once=False)
    return probe.percentiles(probe.started() + seconds * WARM_UP_SHARE)


if __name__ == "__main__":
    role, address, name, *rest = sys.argv[1:]
    if role == "produce":
        produce(address, name, int(rest[0]), float(rest[1]))
    else:
        consume(address, name, float(rest[0]))
