"""Play a run: load, faults one after the other, and the verdict. In namespaces of its own.

`python -m tests.outside.amqp_cluster` makes these, and calls this program in them.
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from headrace.wire.amqp.model_methods import (
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)
from tests.chaos.namespaces import CLIENTS, Network, NoNamespaces
from tests.outside.amqp_cluster.clients import WINDOW, Brokers, Client, Consumer, Publisher
from tests.outside.amqp_cluster.clusters import HOSTS, ZOOKEEPER, Cluster, Headraces, Rabbits
from tests.outside.amqp_cluster.faults import CUT_FROM_PEERS, CUT_OFF, KILL, PAUSE, drawn, inflict
from tests.outside.amqp_cluster.history import CONFIRMED, REFUSED, SENT, Fault, History
from tests.outside.amqp_cluster.judge import broken, longest_gap
from tests.outside.amqp_cluster.plan import CLAIMS, EXCHANGES, MIXED, QUEUES, SPREAD, Queue
from tests.support.amqp.wire import AmqpWire

CLUSTERS: dict[str, Callable[[Path, Network, str], Headraces | Rabbits]] = {
    "headrace": Headraces,
    "rabbitmq": Rabbits,
}
PUBLISHERS = {SPREAD: 3, MIXED: 1}
MIXED_SHARE = 0.2
PROGRESS = 20
"""Confirms of each exchange, and deliveries of each consumed queue, between two faults."""
CONSUMED = [queue for queue in QUEUES if queue.consumers]
PROGRESS_SECONDS_MAX = 60.0
WHOLE_SECONDS_MAX = 90.0
DRAIN_SECONDS_MAX = 120.0
QUIET_SECONDS = 8.0
"""A queue that delivers nothing for so long in the end has nothing left, or is stuck."""
CALM_SECONDS_MAX = 1.0
GAP_SECONDS = 5.0
"""Gaps in the confirms are looked for until so long behind a fault."""


class StuckError(Exception):
    """The cluster or its clients get no further; says which."""


class Run:
    """The clients of a cluster and what they saw."""

    def __init__(self, cluster: Cluster, seed: int, rate: float) -> None:
        self.history = History()
        self._cluster = cluster
        self._chance = random.Random(seed)
        self._brokers = Brokers(cluster.addresses)
        shares = {SPREAD: 1 - MIXED_SHARE, MIXED: MIXED_SHARE}
        self.publishers = [
            Publisher(
                self.history, self._brokers, self._chance.randrange(1 << 32), exchange,
                rate * shares[exchange] / PUBLISHERS[exchange],
            )
            for exchange in EXCHANGES
            for _ in range(PUBLISHERS[exchange])
        ]  # fmt: skip
        self.consumers = [self._consumer(queue) for queue in QUEUES for _ in range(queue.consumers)]

    @property
    def clients(self) -> list[Client]:
        """All clients that run while faults come."""
        return [*self.consumers, *self.publishers]

    def _consumer(self, queue: Queue) -> Consumer:
        return Consumer(self.history, self._brokers, self._chance.randrange(1 << 32), queue)

    def declare(self) -> None:
        """Declare each queue through the next broker, so that their leaders differ."""
        wires = [
            AmqpWire(one.port, 30, one.host, (one.user, one.password))
            for one in self._cluster.addresses
        ]
        for exchange in EXCHANGES:
            asked = ExchangeDeclare(exchange=exchange, type="fanout", durable=True)
            _expect(wires[0].ask(asked), ExchangeDeclareOk)
        for number, queue in enumerate(QUEUES):
            wire = wires[number % len(wires)]
            declared = QueueDeclare(queue=queue.name, durable=True, arguments=queue.arguments)
            _expect(wire.ask(declared), QueueDeclareOk)
            if queue.exchange:
                bound = QueueBind(queue=queue.name, exchange=queue.exchange)
                _expect(wire.ask(bound), QueueBindOk)
        for wire in wires:
            wire.close()

    def disturb(self, kinds: list[str], messages: int) -> None:
        """Spread faults over so many confirmed messages. StuckError."""
        self._start(self.clients)
        self._progress()
        for number, kind in enumerate(kinds, 1):
            self._have_confirmed(messages * (number - 1) // len(kinds))
            time.sleep(self._chance.uniform(0.0, CALM_SECONDS_MAX))
            fault = inflict(kind, self._cluster, self._brokers, self._chance)
            self.history.faults.append(fault)
            whole = self._whole()
            self._progress()
            gap = gap_of(self.history, fault)
            print(
                f"  {number}/{len(kinds)} {kind} of {fault.broker},"
                f" {fault.ended - fault.began:.1f} s: confirms paused for {gap:.2f} s,"
                f" whole after {whole:.1f} s, {self.confirmed()} confirmed",
                flush=True,
            )
        self._have_confirmed(messages)

    def _have_confirmed(self, messages: int) -> None:
        while self.confirmed() < messages:
            self._progress()

    def confirmed(self) -> int:
        """Return how many messages are confirmed."""
        return self.history.publishes.state.count(CONFIRMED)

    def drain(self) -> None:
        """End the publishers, consume what is left, and end the consumers."""
        self._end(self.publishers)
        left = [self._consumer(queue) for queue in QUEUES if queue.name == "short"]
        self._start(left)
        now = quiet = time.monotonic()
        deadline, before = now + DRAIN_SECONDS_MAX, -1
        while now < min(deadline, quiet + QUIET_SECONDS):
            delivered = sum(len(one.numbers) for one in self.history.deliveries.values())
            if delivered != before:
                before, quiet = delivered, now
            time.sleep(0.2)
            now = time.monotonic()
        self._end(self.consumers + left)

    def end(self) -> None:
        """End all clients where they are."""
        self._end([one for one in self.clients if one.started])

    @staticmethod
    def _start(clients: Sequence[Client]) -> None:
        for client in clients:
            client.start()

    @staticmethod
    def _end(clients: Sequence[Client]) -> None:
        for client in clients:
            client.finish()
        for client in clients:
            client.join()

    def _whole(self) -> float:
        """Return after how many seconds the cluster was whole. StuckError."""
        began = time.monotonic()
        while told := self._cluster.missing():
            if time.monotonic() > began + WHOLE_SECONDS_MAX:
                raise StuckError(f"not whole after {WHOLE_SECONDS_MAX:g} s: {told[:5]}")
            time.sleep(0.1)
        return time.monotonic() - began

    def _progress(self) -> None:
        """Return when every exchange and every consumed queue has gone on. StuckError."""
        wanted = {name: count + PROGRESS for name, count in self._counts().items()}
        deadline = time.monotonic() + PROGRESS_SECONDS_MAX
        while True:
            now = self._counts()
            behind = [name for name, count in wanted.items() if now[name] < count]
            if not behind:
                return
            if time.monotonic() > deadline:
                raise StuckError(f"nothing more in {PROGRESS_SECONDS_MAX:g} s: {behind}")
            time.sleep(0.05)

    def counts_of_brokers(self) -> list[str]:
        """Return the ready messages and consumers of each queue, as each broker tells them."""
        told = []
        for number, one in enumerate(self._cluster.addresses):
            try:
                wire = AmqpWire(one.port, 5, one.host, (one.user, one.password))
                asked = (wire.ask(QueueDeclare(queue=each.name, passive=True)) for each in QUEUES)
                told.append(f"broker {number}: {' '.join(str(tuple(answer)) for answer in asked)}")
                wire.close()
            except OSError as error:
                told.append(f"broker {number}: {error}")
        return told

    def _counts(self) -> dict[str, int]:
        publishes, deliveries = self.history.publishes, self.history.deliveries
        confirms = {f"confirms of {one}": len(publishes.confirms[one]) for one in EXCHANGES}
        consumed = {queue.name: len(deliveries[queue.name].numbers) for queue in CONSUMED}
        return confirms | consumed


def _expect(answer: object, kind: type) -> None:
    if not isinstance(answer, kind):
        raise StuckError(f"not {kind.__name__} but {answer}")


def summary(history: History) -> str:
    """Return the counts of a run."""
    publishes, faults = history.publishes, history.faults
    state = publishes.state
    delivered = {name: len(found.numbers) for name, found in history.deliveries.items()}
    again = {
        name: len(found.numbers) - len(set(found.numbers))
        for name, found in history.deliveries.items()
    }
    silent = sum(bool(one.silent_since) for one in publishes.sessions)
    lines = [
        f"{state.count(CONFIRMED)} messages confirmed, {state.count(REFUSED)} refused,"
        f" {state.count(SENT)} in flight when their connections ended"
        f" ({len(publishes.sessions)} publishers' connections, {silent} left by their clients)",
        f"deliveries: {sum(delivered.values())} in all: {delivered}",
        f"of these again: {again}",
    ]
    for kind in (KILL, PAUSE, CUT_FROM_PEERS, CUT_OFF):
        found = [fault for fault in faults if fault.kind == kind]
        if found:
            gaps = sorted(gap_of(history, fault) for fault in found)
            lines.append(
                f"{kind}: {len(found)}; confirms paused for {median(gaps):.2f} s in the median,"
                f" {gaps[-1]:.2f} s at most"
            )
    lines += [f"{count} x {why}" for why, count in history.ends.most_common(8)]
    return "\n".join(lines)


def gap_of(history: History, fault: Fault) -> float:
    """Return for how long no confirm of an exchange with three leaders came."""
    times = history.publishes.confirms[SPREAD]
    return longest_gap(times, fault.began, fault.ended + GAP_SECONDS)


def ride(arguments: argparse.Namespace, place: Path) -> bool:
    """Play a run and print its counts and verdict; whether every promise was kept."""
    chance = random.Random(arguments.seed)
    kinds = drawn(arguments.kills, arguments.pauses, arguments.partitions, chance)
    network = Network([*HOSTS, ZOOKEEPER])
    with CLUSTERS[arguments.broker](place, network, CLIENTS) as cluster:
        run = Run(cluster, chance.randrange(1 << 32), arguments.rate)
        stuck = []
        try:
            run.declare()
            run.disturb(kinds, arguments.messages)
            run.drain()
        except (StuckError, OSError) as error:
            stuck = [f"stuck: {error}", *run.counts_of_brokers()]
            run.end()
        (place / "brokers.log").write_text(cluster.output)
    print(summary(run.history))
    found = [*stuck, *broken(run.history, CLAIMS, WINDOW)]
    print(*(found or ["every promise was kept"]), sep="\n")
    return not found


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command's options."""
    made = argparse.ArgumentParser(prog="python -m tests.outside.amqp_cluster", description=__doc__)
    made.add_argument("--broker", choices=sorted(CLUSTERS), default="headrace")
    made.add_argument("--kills", type=int, default=50)
    made.add_argument("--pauses", type=int, default=20)
    made.add_argument("--partitions", type=int, default=20)
    made.add_argument("--messages", type=int, default=2_000_000, help="confirmed, at least")
    made.add_argument("--rate", type=float, default=2000.0, help="publishes a second")
    made.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    made.add_argument("--keep", action="store_true", help="leave the brokers' directories")
    return made


def main() -> int:
    arguments = parser().parse_args()
    print(
        f"{arguments.broker}: {arguments.kills} kills, {arguments.pauses} pauses,"
        f" {arguments.partitions} partitions, {arguments.messages} messages,"
        f" seed {arguments.seed}",
        flush=True,
    )
    place = Path(tempfile.mkdtemp(prefix="headrace-amqp-cluster-"))
    try:
        kept = ride(arguments, place)
    except NoNamespaces as error:
        print(f"no network of namespaces can be made here: {error}")
        kept = False
    if kept and not arguments.keep:
        shutil.rmtree(place)
    else:
        print(f"what the brokers said and hold is in {place}")
    return not kept


if __name__ == "__main__":
    sys.exit(main())
