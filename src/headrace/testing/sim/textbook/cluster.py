"""A partition on replicas A, B, C for textbook cases, and a controller that never fails."""

import asyncio
from collections.abc import Callable, Mapping

from headrace.broker.partition import Partition
from headrace.client.client import Client
from headrace.client.producer.producer import Producer
from headrace.cluster.decisions.events import ReassignmentAsked
from headrace.cluster.topics.creation import NewTopic
from headrace.log.log import Log
from headrace.model.errors import ApiError
from headrace.model.nouns import BrokerId, Offset, TopicPartition
from headrace.testing.sim.cluster import SimCluster
from headrace.testing.sim.replica_trace import ReplicaTrace, held
from headrace.testing.sim.replica_watch import contents
from headrace.testing.sim.world import WALL_MS

CONTROLLER, A, B, C = (BrokerId(number) for number in (1, 2, 3, 4))
WRITER = "writer"
"""The producer's machine."""
TOPIC = "t"
LOOK_SECONDS = 0.005
LOOKS_MAX = 6000
NAMES = {A: "A", B: "B", C: "C"}


class NeverHappens(Exception):
    """A case waited too long for a condition."""


async def until(holds: Callable[[], object]) -> None:
    """Wait until `holds()` is true. NeverHappens: too long."""
    for _ in range(LOOKS_MAX):
        if holds():
            return
        await asyncio.sleep(LOOK_SECONDS)
    raise NeverHappens(f"not within {LOOKS_MAX * LOOK_SECONDS:g} seconds of the simulation")


class TextbookCluster:
    """The replicas, the operations on them, and the trace. A is the first leader."""

    def __init__(self, cluster: SimCluster, replicas: tuple[BrokerId, ...] = (A, B)) -> None:
        self.cluster = cluster
        self.replicas = replicas
        names = {broker: NAMES[broker] for broker in replicas}
        self.trace = ReplicaTrace(cluster, TOPIC, names, CONTROLLER)

    async def begin(self, **config: str) -> None:
        """Start the brokers and create the topic; `config`: its settings, with `_` for `.`."""
        for broker in (CONTROLLER, *self.replicas):
            await self.cluster.start(broker)
        brokers = self.cluster.brokers[CONTROLLER].broker.image.brokers
        await until(lambda: len(brokers) == 1 + len(self.replicas))
        settings = {name.replace("_", "."): value for name, value in config.items()}
        wanted = NewTopic(TOPIC, assignment={0: self.replicas}, config=settings)
        await self.cluster.controller().create_topics([wanted])
        await until(lambda: self._known_followers() == len(self.replicas) - 1)
        self.trace.begin()

    def _known_followers(self) -> int:
        """Return the number of followers that have fetched from A."""
        partition = self.partition(A)
        term = None if partition is None else partition.role.term
        return 0 if term is None else len(list(term.ends_in_sync(Offset(0))))

    # --- observations ---------------------------------------------------------------------------

    def partition(self, broker: BrokerId) -> Partition | None:
        """Return a broker's replica; None while it is down."""
        return held(self.cluster, broker, TOPIC)

    def log(self, broker: BrokerId) -> Log:
        """Return the log of a running broker. Raises NeverHappens."""
        partition = self.partition(broker)
        if partition is None:
            raise NeverHappens(f"{NAMES[broker]} holds no replica")
        return partition.log

    def mark(self, broker: BrokerId) -> tuple[int, int]:
        """Return high watermark and log end of a replica; -1 if its broker is down."""
        partition = self.partition(broker)
        if partition is None:
            return (-1, -1)
        return partition.log.high_watermark, partition.log.end_offset

    def marks(self) -> set[tuple[int, int]]:
        """Return the marks of all replicas: a single one if they are equal."""
        return {self.mark(broker) for broker in self.replicas}

    def epoch(self, broker: BrokerId) -> int:
        """Return the leader epoch that a broker knows; -1 while it is down."""
        partition = self.partition(broker)
        return -1 if partition is None else partition.leader_epoch

    def in_sync(self, broker: BrokerId) -> frozenset[BrokerId]:
        """Return the ISR if this broker leads; else empty."""
        partition = self.partition(broker)
        term = None if partition is None else partition.role.term
        return frozenset() if term is None else term.in_sync

    def leads(self, broker: BrokerId) -> bool:
        """Return whether a broker believes that it leads the partition."""
        server = self.cluster.brokers.get(broker)
        return server is not None and (TOPIC, 0) in server.broker.partitions

    def leader(self) -> BrokerId:
        """Return the leader that the controller has written; -1: none."""
        image = self.cluster.brokers[CONTROLLER].broker.image
        return image.topics[TOPIC].partitions[0].leader

    def values(self, broker: BrokerId) -> list[bytes]:
        """Return the messages in a broker's log."""
        return list(contents(self.log(broker)).values())

    # --- operations -----------------------------------------------------------------------------

    async def write(self, value: bytes, acks: int = -1, *, patient: bool = True) -> bool:
        """Write a message; return whether it was acknowledged.

        `patient`: retry until it is. Otherwise try once, and note the error in the trace.
        """
        client = self.client(WRITER)
        client.retry_seconds = 60.0 if patient else 0.0
        producer = Producer(client, idempotent=False, acks=acks)
        try:
            await producer.send(TOPIC, value, timestamp=WALL_MS, partition=0)
            await producer.flush()
        except ApiError as error:
            if patient:
                raise
            self.trace.note(f'"{value.decode()}" is refused: {error.code.name}')
            return False
        finally:
            client.close()
        with_acks = "all" if acks == -1 else acks
        self.trace.note(f'"{value.decode()}" is acknowledged, acks={with_acks}')
        return True

    def client(self, name: str) -> Client:
        """Return a client that knows all brokers, on a machine of its own."""
        return self.cluster.client(name)

    def cut(self, source: BrokerId, target: BrokerId | str) -> None:
        """Cut the link from one broker to another, or to the producer."""
        self.cluster.network.cut(_machine(source), _machine(target))

    def mend(self, source: BrokerId, target: BrokerId, *, anew: bool = False) -> None:
        """Restore a link, after a reset of its connections if asked."""
        if anew:
            self.cluster.network.break_links(_machine(source), _machine(target))
        self.cluster.network.mend(_machine(source), _machine(target))

    def slow(self, source: BrokerId, target: BrokerId, times: float) -> None:
        """Multiply the delay from one broker to another; 1 restores it."""
        self.cluster.network.slow(_machine(source), _machine(target), times)

    async def reorder(self, replicas: tuple[BrokerId, ...]) -> None:
        """Write the replicas in another order: a new leader epoch begins."""
        moved = ReassignmentAsked(TopicPartition(TOPIC, 0), replicas)
        await self.cluster.controller().carry_out(moved)

    def fail(self, broker: BrokerId) -> "asyncio.Task[None]":
        """Cut a broker's power; it can be started again once the task is done."""
        return asyncio.ensure_future(self.cluster.cut_power(broker))

    async def start(self, broker: BrokerId) -> None:
        """Start a failed broker again."""
        await self.cluster.start(broker)

    def pause(self, broker: BrokerId) -> None:
        """Stop a broker's process, like SIGSTOP."""
        self.cluster.world(broker).pause()

    def resume(self, broker: BrokerId) -> None:
        """Continue a broker's process, like SIGCONT."""
        self.cluster.world(broker).resume()


def _machine(broker: BrokerId | str) -> str:
    return broker if isinstance(broker, str) else f"broker-{broker}"


def held_messages(played: TextbookCluster) -> str:
    """Return the final contents of each replica's log as text."""
    found = {broker: b" | ".join(played.values(broker)).decode() for broker in played.replicas}
    if len(set(found.values())) == 1:
        return f"all replicas hold: {found[A]}"
    names = dict(zip(played.replicas, "ABC", strict=False))
    held = "; ".join(f"{names[broker]}: {messages}" for broker, messages in found.items())
    return f"the replicas differ. {held}"


Settings = Mapping[str, str]
"""Settings of all brokers, by Kafka's names."""
