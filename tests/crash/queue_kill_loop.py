"""kill -9 under load of AMQP: what was confirmed is delivered, what was settled stays away.

`python -m tests.crash.queue_kill_loop --kills 100` publishes to a durable fanout exchange with a
classic and a quorum queue, consumes both, and prints what was confirmed, lost, came back although
its acknowledgement was old enough to be durable, came again without being called redelivered, and
is not in the topic of the quorum queue, which keeps what is settled. The last four must be 0.
Status 1: a promise broke.

Old enough is 100 ms, and what a flush took beside it and a thread waited for a processor in the
seconds before the kill: both are measured, and printed.
"""

import argparse
import os
import random
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import headrace.arrow
from headrace.queues.queue_names import queue_topic
from headrace.wire.amqp.content import Message
from headrace.wire.amqp.control_methods import ConfirmSelect
from headrace.wire.amqp.field_table import FieldTable
from headrace.wire.amqp.methods import encode_method
from headrace.wire.amqp.model_methods import (
    BasicAck,
    BasicConsume,
    BasicDeliver,
    BasicNack,
    BasicQos,
    BasicQosOk,
    ExchangeDeclare,
    QueueBind,
    QueueDeclare,
)
from headrace.wire.amqp.properties import Properties, make_header
from tests.support.amqp.messages import publish_frames
from tests.support.amqp.wire import AmqpWire
from tests.support.processes.process import BrokerProcess, free_port

EXCHANGE = "ridden"
KEEPS = "ridden.q"
QUEUES: dict[str, FieldTable] = {
    "ridden": {},
    KEEPS: {"x-queue-type": "quorum", "x-headrace-retention": "1D"},
}
WINDOW = 300
"""Publishes that wait for their confirms."""
PREFETCH = 200
CONFIRMED_BETWEEN_KILLS_MIN = 500
SETTLED_SECONDS = 0.1
"""So long after the broker has taken an acknowledgement it is durable, where the machine does not
hold it up."""
MEASURED_SECONDS = 2.0
"""How long before a kill what holds the broker up is looked at."""
PROGRESS_SECONDS_MAX = 60.0


class Kill(NamedTuple):
    """The end of one life of the broker."""

    at: float
    """No later than it was killed."""
    settled_seconds: float
    """What was acknowledged so long before is durable."""


class Hindrances:
    """Measures beside a broker what a flush takes and how long a thread waits to run."""

    def __init__(self, directory: Path) -> None:
        self._file = (directory / "flushed").open("wb", buffering=0)
        self._measured: deque[tuple[float, float]] = deque()
        self._running = True
        self._thread = threading.Thread(target=self._measure)
        self._thread.start()

    def finish(self) -> None:
        """End the thread."""
        self._running = False
        self._thread.join()
        self._file.close()

    def _measure(self) -> None:
        while self._running:
            began = time.monotonic()
            time.sleep(0.01)
            self._file.write(b"x")
            os.fdatasync(self._file.fileno())
            now = time.monotonic()
            self._measured.append((now, now - began - 0.01))
            while self._measured[0][0] < now - MEASURED_SECONDS:
                self._measured.popleft()

    def longest(self) -> float:
        """Return the longest of the last seconds; a measurement that goes on counts, too."""
        measured = list(self._measured)
        last = measured[-1][0] if measured else time.monotonic()
        return max([seconds for _, seconds in measured] + [time.monotonic() - last])


@dataclass
class Consumed:
    """What one queue's consumer has got."""

    delivered: dict[int, int] = field(default_factory=dict)
    """How often, by number."""
    acknowledged: dict[int, tuple[float, int]] = field(default_factory=dict)
    """When the broker was known to have taken it, and in which of its lives, by number."""
    back: list[int] = field(default_factory=list)
    """Settled for good, and delivered again."""
    unflagged: list[int] = field(default_factory=list)
    """Delivered again and not called redelivered."""

    def note(self, number: int, redelivered: bool, kills: list[Kill]) -> None:
        """Note a delivery."""
        before = self.delivered.get(number, 0)
        self.delivered[number] = before + 1
        if before and not redelivered:
            self.unflagged.append(number)
        settled_at, life = self.acknowledged.get(number, (0.0, len(kills)))
        if life < len(kills) and settled_at < kills[life].at - kills[life].settled_seconds:
            self.back.append(number)


class Riders:
    """Publisher and consumers, each a thread that connects again and again."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.confirmed: set[int] = set()
        self.refused: set[int] = set()
        self.consumed = {queue: Consumed() for queue in QUEUES}
        self.kills: list[Kill] = []
        """Noted when the broker is dead: a connection that was open is of the life before."""
        self.publishing = True
        self.running = True
        self._next = 0
        self.unanswered = False
        """Some of what was published may still be confirmed."""
        self.problems: list[str] = []
        self._threads = [threading.Thread(target=self._ride, args=(self._publish,))]
        self._threads += [
            threading.Thread(target=self._ride, args=(lambda queue=queue: self._consume(queue),))
            for queue in QUEUES
        ]
        for thread in self._threads:
            thread.start()

    def finish(self) -> None:
        """End all threads."""
        self.publishing = self.running = False
        for thread in self._threads:
            thread.join()

    def _ride(self, once: Callable[[], None]) -> None:
        while self.running:
            try:
                once()
            except OSError:
                time.sleep(0.05)
            except Exception as error:
                self.problems.append(repr(error))
                raise

    def _publish(self) -> None:
        if not self.publishing:
            time.sleep(0.05)
            return
        wire = AmqpWire(self._port)
        try:
            wire.ask(ConfirmSelect())
            first = self._next
            confirmed = 0
            header_of = Properties(delivery_mode=2)
            while self.running:
                frames = []
                while self.publishing and self._next - first - confirmed < WINDOW:
                    body = b"%d" % self._next
                    header = make_header(len(body), header_of)
                    message = Message(EXCHANGE, "", header, body)
                    frames.append(publish_frames(1, message, 0))
                    self._next += 1
                if frames:
                    self.unanswered = True
                    wire.send(b"".join(frames))
                if first + confirmed == self._next:
                    return
                answer, _ = wire.received()
                upto = answer.delivery_tag
                numbers = range(first + (confirmed if answer.multiple else upto - 1), first + upto)
                if isinstance(answer, BasicAck):
                    self.confirmed.update(numbers)
                elif isinstance(answer, BasicNack):
                    self.refused.update(numbers)
                confirmed = max(confirmed, upto)
        finally:
            self.unanswered = False
            wire.close()

    def _consume(self, queue: str) -> None:
        consumed = self.consumed[queue]
        life = len(self.kills)
        wire = AmqpWire(self._port)
        try:
            if life != len(self.kills):
                return
            wire.ask(BasicQos(0, PREFETCH, False))
            wire.send(encode_method(1, BasicConsume(queue=queue, consumer_tag="c")))
            wire.timeout(0.5)
            noted: list[int] = []
            sent: deque[list[int]] = deque()
            tag = 0
            while self.running:
                with suppress(TimeoutError):
                    found, body = wire.received()
                    if isinstance(found, BasicDeliver):
                        consumed.note(int(body), found.redelivered, self.kills)
                        noted.append(int(body))
                        tag = found.delivery_tag
                    elif isinstance(found, BasicQosOk):
                        taken = time.monotonic(), life
                        consumed.acknowledged.update(dict.fromkeys(sent.popleft(), taken))
                if noted and (not wire.has_more or len(noted) >= PREFETCH // 2):
                    # What is asked behind it is answered once the acknowledgement was taken.
                    ack, probe = BasicAck(tag, True), BasicQos(0, PREFETCH, False)
                    wire.send(encode_method(1, ack) + encode_method(1, probe))
                    sent.append(noted)
                    noted = []
        finally:
            wire.close()


@dataclass(frozen=True)
class Verdict:
    """What was delivered, against what was confirmed."""

    kills: int
    confirmed: int
    refused: int
    acknowledged: int
    again: int
    lost: list[str]
    back: list[str]
    unflagged: list[str]
    not_kept: list[int]
    problems: list[str]
    starts: list[float]
    settled_seconds: float
    """After which what was acknowledged is durable: the longest before any kill."""

    def holds(self) -> bool:
        broken = self.lost or self.back or self.unflagged or self.not_kept
        return not (broken or self.problems or self.refused)

    def __str__(self) -> str:
        return (
            f"{self.kills} kills: confirmed {self.confirmed} (refused {self.refused}), acknowledged"
            f" {self.acknowledged}; lost {len(self.lost)} {self.lost[:3]}, settled and back"
            f" {len(self.back)} {self.back[:3]} (after {self.settled_seconds:.3f} s), again and not"
            f" called redelivered {len(self.unflagged)} {self.unflagged[:3]}, not kept"
            f" {len(self.not_kept)} {self.not_kept[:3]};"
            f" redelivered {self.again};"
            f" {self.problems[:3]}; exec to answering: max {max(self.starts):.3f} s"
        )


def declare(port: int) -> None:
    """Declare all, once: what is durable is there after each kill."""
    wire = AmqpWire(port)
    wire.ask(ExchangeDeclare(exchange=EXCHANGE, type="fanout", durable=True))
    for queue, arguments in QUEUES.items():
        wire.ask(QueueDeclare(queue=queue, durable=True, arguments=arguments))
        wire.ask(QueueBind(queue=queue, exchange=EXCHANGE))
    wire.close()


def ride(directory: Path, kills: int, seed: int) -> Verdict:
    """Kill the broker `kills` times at random moments of load and judge what it delivers."""
    chance = random.Random(seed)
    port, amqp_port = free_port(), free_port()
    broker = BrokerProcess(
        directory,
        port,
        listeners=f"PLAINTEXT://127.0.0.1:{port},AMQP://127.0.0.1:{amqp_port}",
        amqp_guest="true",
    )
    starts = [broker.start()]
    declare(amqp_port)
    riders = Riders(amqp_port)
    hindrances = Hindrances(directory)
    try:
        for _ in range(kills):
            _wait_for_progress(riders, broker)
            time.sleep(chance.uniform(0.0, 0.3))
            kill = Kill(time.monotonic(), SETTLED_SECONDS + hindrances.longest())
            broker.kill()
            riders.kills.append(kill)
            starts.append(broker.start())
        _wait_for_progress(riders, broker)
        riders.publishing = False
        deadline = time.monotonic() + PROGRESS_SECONDS_MAX
        while (riders.unanswered or _lost(riders)) and time.monotonic() < deadline:
            time.sleep(0.1)
    finally:
        riders.finish()
        hindrances.finish()
        broker.stop()
    consumed = riders.consumed
    return Verdict(
        kills,
        len(riders.confirmed),
        len(riders.refused),
        sum(len(each.acknowledged) for each in consumed.values()),
        sum(sum(each.delivered.values()) - len(each.delivered) for each in consumed.values()),
        _lost(riders),
        [f"{queue}:{number}" for queue, each in consumed.items() for number in each.back],
        [f"{queue}:{number}" for queue, each in consumed.items() for number in each.unflagged],
        _not_kept(riders, broker),
        riders.problems,
        starts,
        max(kill.settled_seconds for kill in riders.kills),
    )


def _lost(riders: Riders) -> list[str]:
    confirmed = set(riders.confirmed)
    return [
        f"{queue}:{number}"
        for queue, consumed in riders.consumed.items()
        for number in sorted(confirmed - consumed.delivered.keys())
    ]


def _not_kept(riders: Riders, broker: BrokerProcess) -> list[int]:
    topic = headrace.arrow.open(str(broker.directory / "log"), queue_topic("/", KEEPS))
    kept = {int(value) for value in topic.read_all().column("value").to_pylist()}
    return sorted(riders.confirmed - kept)


def _wait_for_progress(riders: Riders, broker: BrokerProcess) -> None:
    wanted = len(riders.confirmed) + CONFIRMED_BETWEEN_KILLS_MIN
    settled = {
        queue: len(each.acknowledged) + CONFIRMED_BETWEEN_KILLS_MIN // 2
        for queue, each in riders.consumed.items()
    }
    deadline = time.monotonic() + PROGRESS_SECONDS_MAX
    while len(riders.confirmed) < wanted or any(
        len(riders.consumed[queue].acknowledged) < count for queue, count in settled.items()
    ):
        if time.monotonic() > deadline:
            raise AssertionError(f"no progress after a start:\n{broker.output[-3000:]}")
        time.sleep(0.01)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    arguments = parser.parse_args()
    print(f"queue kill loop: {arguments.kills} kills, seed {arguments.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="headrace-queue-kill-") as directory:
        verdict = ride(Path(directory), arguments.kills, arguments.seed)
    print(verdict)
    return not verdict.holds()


if __name__ == "__main__":
    sys.exit(main())
