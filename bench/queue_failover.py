"""How long a replicated queue confirms and delivers nothing when its leader is killed.

One client publishes a message at a time with confirms on a broker that lives, another consumes on
the third: the gap is the longest time between two answers around the kill. Raw frames, so that no
client's back-off is measured.
"""

import threading
import time
from abc import ABC, abstractmethod
from array import array
from statistics import median

from bench import queue_load
from bench.clusters import BROKERS
from bench.queue_clusters import QueueCluster
from headrace.wire.amqp.content import Message
from headrace.wire.amqp.control_methods import ConfirmSelect
from headrace.wire.amqp.methods import encode_method
from headrace.wire.amqp.model_methods import (
    BasicAck,
    BasicConsume,
    BasicDeliver,
    BasicNack,
    BasicQos,
)
from headrace.wire.amqp.properties import Properties, make_header
from tests.outside.amqp.address import Address
from tests.outside.amqp_cluster.judge import longest_gap
from tests.support.amqp.messages import publish_frames
from tests.support.amqp.wire import AmqpWire

QUEUE = "bench-failover"
DEATHS = 10
STEADY_SECONDS = 1.0
GAP_SECONDS_MAX = 60.0
PAUSE_SECONDS = 0.002
"""Between two publishes: brokers are to have their time for more than these."""
PREFETCH = 100


class _Probe(ABC):
    """A thread with a connection; `times` has when it got each of its answers."""

    def __init__(self, address: Address) -> None:
        self.times = array("d")
        self.failed: Exception | None = None
        self._wire = AmqpWire(address.port, GAP_SECONDS_MAX)
        self._running = True
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "_Probe":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._running = False
        self._thread.join()
        self._wire.close()

    def _run(self) -> None:
        try:
            self.begin(self._wire)
            while self._running:
                if self.once(self._wire):
                    self.times.append(time.monotonic())
        except Exception as error:  # noqa: BLE001 - raised where it is waited for
            self.failed = error

    @abstractmethod
    def begin(self, wire: AmqpWire) -> None:
        """Prepare the channel."""

    @abstractmethod
    def once(self, wire: AmqpWire) -> bool:
        """Wait for an answer; whether it was one that counts."""


class _Publisher(_Probe):
    """Publishes a message once the one before it is confirmed."""

    _frames = publish_frames(
        1, Message("", QUEUE, make_header(4, Properties(delivery_mode=2)), b"body"), 0
    )

    def begin(self, wire: AmqpWire) -> None:
        wire.ask(ConfirmSelect())

    def once(self, wire: AmqpWire) -> bool:
        time.sleep(PAUSE_SECONDS)
        wire.send(self._frames)
        answer, _ = wire.received()
        if not isinstance(answer, BasicAck | BasicNack):
            raise RuntimeError(f"not a confirm: {answer}")
        return isinstance(answer, BasicAck)


class _Consumer(_Probe):
    """Acknowledges each delivery."""

    def begin(self, wire: AmqpWire) -> None:
        wire.ask(BasicQos(0, PREFETCH, False))
        wire.send(encode_method(1, BasicConsume(queue=QUEUE, consumer_tag="c")))
        wire.timeout(0.1)

    def once(self, wire: AmqpWire) -> bool:
        try:
            found, _ = wire.received()
        except TimeoutError:
            return False
        if not isinstance(found, BasicDeliver):
            return False
        wire.send(encode_method(1, BasicAck(found.delivery_tag, False)))
        return True


def deaths(cluster: QueueCluster, count: int = DEATHS) -> dict[str, float]:
    """Kill the leader so often; medians in milliseconds."""
    address = f"{cluster.addresses[0].host}:{cluster.addresses[0].port}"
    # A queue of ours has a leader from its first message on.
    queue_load.run("publish", address, queue=QUEUE, kind="quorum", messages=1, window=1)
    found = [_die(cluster) for _ in range(count)]
    return {name: median(one[name] for one in found) for name in found[0]} | {
        f"longest {name}": max(one[name] for one in found) for name in found[0]
    }


def _die(cluster: QueueCluster) -> dict[str, float]:
    leader = cluster.leader(QUEUE)
    cluster.until_in_step(QUEUE)
    first, second = (cluster.addresses[number] for number in range(BROKERS) if number != leader)
    with _Publisher(first) as publisher, _Consumer(second) as consumer:
        probes = {"confirm gap ms": publisher, "delivery gap ms": consumer}
        time.sleep(STEADY_SECONDS)
        killed = time.monotonic()
        cluster.kill(leader)
        for probe in probes.values():
            _until_answered(probe, killed)
        time.sleep(STEADY_SECONDS)
    until = killed + GAP_SECONDS_MAX
    gaps = {name: 1000 * longest_gap(one.times, killed, until) for name, one in probes.items()}
    cluster.restart(leader)
    return gaps


def _until_answered(probe: _Probe, killed: float) -> None:
    """Return when an answer came behind the kill. RuntimeError."""
    deadline = killed + GAP_SECONDS_MAX
    # Answers of the first moment may have been sent before the kill.
    while not probe.times or probe.times[-1] < killed + STEADY_SECONDS:
        if probe.failed is not None:
            raise RuntimeError("a client failed") from probe.failed
        if time.monotonic() > deadline:
            raise RuntimeError(f"nothing in {GAP_SECONDS_MAX:g} s behind a kill")
        time.sleep(0.01)
