"""What queues cost by the thousand and messages by the million: `python -m tests.queue_scale`.

    queues   10,000 durable queues: declared, a first message for each, restarts
    ready    100 million ready messages in one durable queue: memory, the head, a restart
    holes    every second of 10 million messages acknowledged: memory, a restart
    purge    10 million messages purged, durable and in memory: the answer, and who waits meanwhile

Each prints its figures. `--scale 0.01` makes all of them smaller, to see whether they run.
"""

import argparse
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from headrace.wire.amqp.content import Message
from headrace.wire.amqp.control_methods import ConfirmSelect
from headrace.wire.amqp.hot import encode_ack
from headrace.wire.amqp.methods import encode_method
from headrace.wire.amqp.model_methods import (
    BasicConsume,
    BasicGet,
    QueueDeclare,
    QueuePurge,
)
from headrace.wire.amqp.properties import Properties, make_header
from tests.queue_scale.brokers import QueueBroker
from tests.queue_scale.loads import Prober, produce, publish, ready
from tests.support.amqp.messages import publish_frames
from tests.support.amqp.wire import AmqpWire

LONG_SECONDS = 600.0
SILENCE_SECONDS = 2.0
"""After which a channel is taken to hold as much as it may."""
TOPIC = "__amqp.queue."


def say(*words: object) -> None:
    print(f"{time.strftime('%H:%M:%S', time.gmtime())}", *words, flush=True)


def megabytes(size: float) -> str:
    return f"{size / 1e6:.1f} MB"


def restarted(broker: QueueBroker, how: Callable[[], object], why: str) -> None:
    """End the broker and say how long it takes to start again."""
    began = time.monotonic()
    how()
    ended = time.monotonic() - began
    seconds = broker.start()
    say(
        f"{why}: ended in {ended:.2f} s, AMQP answers after {seconds:.2f} s,"
        f" {broker.cpu_seconds():.2f} CPU s, {megabytes(broker.resident_bytes())}"
    )


def queues(broker: QueueBroker, scale: float) -> None:
    """Declare many queues over one connection and over ten, restart, publish, restart."""
    count = int(10_000 * scale)
    for connections in (1, 10):
        wires = [AmqpWire(broker.amqp_port, LONG_SECONDS) for _ in range(connections)]
        names = [f"{connections}-{number}" for number in range(count)]
        shares = [names[at::connections] for at in range(connections)]
        work = [
            threading.Thread(target=_declare, args=pair) for pair in zip(wires, shares, strict=True)
        ]
        began, cpu = time.monotonic(), broker.cpu_seconds()
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()
        seconds = time.monotonic() - began
        each = 1e6 * (broker.cpu_seconds() - cpu) / count
        say(f"{count} queues over {connections}: {count / seconds:.0f}/s, {each:.0f} CPU us each")
        for wire in wires:
            wire.close()
        if connections == 1:
            restarted(broker, broker.stop, f"{count} queues, stopped")
            restarted(broker, broker.kill, f"{count} queues, killed")
    wire = AmqpWire(broker.amqp_port, LONG_SECONDS)
    wire.ask(ConfirmSelect())
    header = make_header(16, Properties(delivery_mode=2))
    began, cpu = time.monotonic(), broker.cpu_seconds()
    wire.send(
        b"".join(publish_frames(1, Message("", f"1-{n}", header, bytes(16))) for n in range(count))
    )
    confirmed = 0
    while confirmed < count:
        answer = wire.method()
        confirmed = max(confirmed + (not answer.multiple), answer.multiple * answer.delivery_tag)
    each = 1e6 * (broker.cpu_seconds() - cpu) / count
    say(f"a first message for each: {time.monotonic() - began:.1f} s, {each:.0f} CPU us each")
    restarted(broker, broker.stop, f"{2 * count} queues, {count} with a message, stopped")
    restarted(broker, broker.kill, "the same, killed")
    assert ready(AmqpWire(broker.amqp_port, LONG_SECONDS), f"1-{count - 1}") == 1


def _declare(wire: AmqpWire, names: Sequence[str]) -> None:
    for name in names:
        wire.ask(QueueDeclare(queue=name, durable=True))


def filled(broker: QueueBroker, count: int) -> AmqpWire:
    """Return a client, once the durable queue `big` has `count` messages."""
    wire = AmqpWire(broker.amqp_port, LONG_SECONDS)
    wire.ask(QueueDeclare(queue="big", durable=True))
    wire.ask(ConfirmSelect())
    header = make_header(1, Properties(delivery_mode=2))
    wire.send(publish_frames(1, Message("", "big", header, b"x")))
    wire.method()
    wire.ask(QueuePurge(queue="big"))
    before = broker.resident_bytes()
    prober = Prober(broker.amqp_port, "other")
    seconds = produce(broker.bootstrap, f"{TOPIC}big", count)
    say(f"{count} records produced in {seconds:.0f} s")
    began = time.monotonic()
    while ready(wire, "big") < count:
        time.sleep(0.5)
    say(f"all ready {time.monotonic() - began:.0f} s later; {prober.stop()}")
    assert ready(wire, "big") == count
    say(
        f"{count} ready: {megabytes(broker.resident_bytes())},"
        f" {megabytes(broker.resident_bytes() - before)} more than before"
    )
    return wire


def big(broker: QueueBroker, scale: float) -> None:
    """Fill a durable queue, get its first message, restart with it, get again."""
    count = int(100_000_000 * scale)
    wire = filled(broker, count)
    began = time.monotonic()
    wire.send(encode_method(1, BasicGet(queue="big", no_ack=True)))
    wire.received()
    say(f"basic.get of the first: {1e3 * (time.monotonic() - began):.1f} ms")
    for why, how in (("stopped", broker.stop), ("killed", broker.kill)):
        restarted(broker, how, why)
        again = AmqpWire(broker.amqp_port, LONG_SECONDS)
        left = ready(again, "big")
        assert left == count - 1 - (why == "killed"), left
        began = time.monotonic()
        again.send(encode_method(1, BasicGet(queue="big", no_ack=True)))
        again.received()
        say(f"{left} ready, the next one got in {1e3 * (time.monotonic() - began):.1f} ms")
        time.sleep(0.5)


def holes(broker: QueueBroker, scale: float) -> None:
    """Acknowledge every second message, and see what the others cost."""
    count = int(10_000_000 * scale)
    filled(broker, count).close()
    restarted(broker, broker.stop, "stopped, without a hole")
    before = broker.resident_bytes()
    prober = Prober(broker.amqp_port, "other")
    began = time.monotonic()
    control, wires, acknowledged = AmqpWire(broker.amqp_port, LONG_SECONDS), [], 0
    while ready(control, "big"):
        wires.append(AmqpWire(broker.amqp_port, LONG_SECONDS))
        acknowledged += _acknowledge_every_second(wires[-1])
    say(f"every second acknowledged in {time.monotonic() - began:.0f} s; {prober.stop()}")
    prober = Prober(broker.amqp_port, "other")
    for wire in wires:
        wire.close()
    time.sleep(5)
    say(f"their channels closed; {prober.stop()}")
    out = broker.resident_bytes() - before
    say(f"{megabytes(out)} more, with what the process keeps of its channels")
    restarted(broker, broker.stop, "stopped")
    restarted(broker, broker.kill, "killed")
    out = broker.resident_bytes() - before
    say(f"{megabytes(out)} more than without holes, {out / (count / 2):.1f} bytes a hole")
    assert ready(AmqpWire(broker.amqp_port, LONG_SECONDS), "big") == count - acknowledged
    assert count * 0.49 < acknowledged < count * 0.51


def _acknowledge_every_second(wire: AmqpWire) -> int:
    """Take messages until the channel may hold no more, or none is left; returns the acks sent."""
    wire.ask(BasicConsume(queue="big", consumer_tag="c"))
    wire.timeout(SILENCE_SECONDS)
    sent = 0
    with suppress(TimeoutError):
        while True:
            acks: list[bytes] = []
            try:
                while wire.has_more or not acks:
                    method, _ = wire.received()
                    if method.delivery_tag % 2:
                        acks.append(encode_ack(1, method.delivery_tag, multiple=False))
            finally:
                wire.send(b"".join(acks))
                sent += len(acks)
    return sent


def purge(broker: QueueBroker, scale: float) -> None:
    """Purge a durable queue and one in memory while others publish."""
    count = int(10_000_000 * scale)
    wire = filled(broker, count)
    _purged(broker, wire, "big", "durable")
    memory = int(1_000_000 * scale)
    wire = AmqpWire(broker.amqp_port, LONG_SECONDS)
    wire.ask(QueueDeclare(queue="light"))
    publish(wire, "light", memory)
    _purged(broker, wire, "light", "in memory")


def _purged(broker: QueueBroker, wire: AmqpWire, queue: str, kind: str) -> None:
    prober = Prober(broker.amqp_port, "other")
    time.sleep(1)
    began = time.monotonic()
    count = wire.ask(QueuePurge(queue=queue)).message_count
    seconds = time.monotonic() - began
    time.sleep(2)
    say(f"{count} purged ({kind}) in {1e3 * seconds:.1f} ms; {prober.stop()}")


SECTIONS: dict[str, Callable[[QueueBroker, float], None]] = {
    "queues": queues,
    "ready": big,
    "holes": holes,
    "purge": purge,
}


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sections", nargs="*", default=list(SECTIONS), metavar="SECTION")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--directory", type=Path, help="where the broker's files are, and go")
    asked = parser.parse_args()
    for name in asked.sections:
        with tempfile.TemporaryDirectory(dir=asked.directory) as directory:
            say(f"{name}:")
            with QueueBroker(Path(directory)) as broker:
                SECTIONS[name](broker, asked.scale)


if __name__ == "__main__":
    main()
