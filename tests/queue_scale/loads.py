"""Messages by the million: straight into a queue's topic, or published without waiting."""

import threading
import time

from bench.rawload import Pipe, drive, produce_answer_bytes, produce_frame
from headrace.record import batch
from headrace.record.record import new_record
from headrace.wire.amqp.content import Message
from headrace.wire.amqp.control_methods import ConfirmSelect
from headrace.wire.amqp.model_methods import QueueDeclare
from headrace.wire.amqp.properties import Properties, make_header
from tests.support.amqp.messages import publish_frames
from tests.support.amqp.wire import AmqpWire

BATCH_RECORDS = 10_000
"""As librdkafka's batch.num.messages."""
IN_FLIGHT = 2
BURST = 2000
"""Messages that are published in one write."""


def produce(bootstrap: str, topic: str, count: int) -> float:
    """Write `count` records of two bytes to a queue's topic; returns the seconds it took."""
    now = int(time.time() * 1000)
    records = batch.build([new_record(b"ab", timestamp=now)] * BATCH_RECORDS)
    frame = produce_frame(topic, 0, records, -1)
    began = time.monotonic()
    left = count // BATCH_RECORDS
    while left:
        pipe = Pipe(bootstrap, frame, produce_answer_bytes(topic), min(left, IN_FLIGHT))
        # Keep at it for a little at a time, so that no more is sent than asked for.
        left -= pipe.owed
        drive([pipe], 0.0)
    return time.monotonic() - began


def publish(wire: AmqpWire, queue: str, count: int, *, size: int = 16, mode: int = 1) -> None:
    """Publish `count` messages; `wire` confirms, and the last confirm is waited for."""
    header = make_header(size, Properties(delivery_mode=mode))
    burst = BURST * publish_frames(1, Message("", queue, header, bytes(size)))
    wire.ask(ConfirmSelect())
    done = 0
    for sent in range(0, count, BURST):
        wire.send(burst)
        while done < sent:  # one burst is under way while the next is made
            done = wire.method().delivery_tag
    while done < count:
        done = wire.method().delivery_tag


def ready(wire: AmqpWire, queue: str) -> int:
    """Return how many messages of a queue are ready."""
    return int(wire.ask(QueueDeclare(queue=queue, passive=True)).message_count)


class Prober:
    """Publishes and waits for the confirm again and again, on a connection of its own."""

    def __init__(self, port: int, queue: str) -> None:
        self._wire = AmqpWire(port)
        self._wire.ask(QueueDeclare(queue=queue))
        self._wire.ask(ConfirmSelect())
        header = make_header(1, Properties())
        self._frames = publish_frames(1, Message("", queue, header, b"x"))
        self._stopped = threading.Event()
        self.seconds: list[float] = []
        self._thread = threading.Thread(target=self._probe)
        self._thread.start()

    def _probe(self) -> None:
        while not self._stopped.is_set():
            began = time.monotonic()
            self._wire.send(self._frames)
            self._wire.method()
            self.seconds.append(time.monotonic() - began)
            time.sleep(0.001)

    def stop(self) -> str:
        """Stop; returns the quantiles in words."""
        self._stopped.set()
        self._thread.join()
        self._wire.close()
        found = sorted(self.seconds)
        p50, p99 = found[len(found) // 2], found[int(len(found) * 0.99)]
        return (
            f"publish to confirm of others: p50 {1e3 * p50:.1f} ms, p99 {1e3 * p99:.1f} ms,"
            f" longest {1e3 * found[-1]:.1f} ms, of {len(found)}"
        )
