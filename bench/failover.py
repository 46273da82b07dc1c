"""How long partitions of a cluster take no records when a broker dies, or stops.

Raw requests of one record with acks=all, so that no client's back-off is measured: some partitions
stand for all, and each is asked for at whoever may lead it until somebody acknowledges.
"""

import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import BinaryIO

from confluent_kafka import ElectionType, KafkaError, KafkaException
from kazoo.client import KazooClient
from kazoo.protocol.states import EventType, WatchedEvent

from bench import rawload
from bench.clusters import BROKERS, WAIT_SECONDS_MAX, Cluster, until

TOPIC = "led"
PROBED = 20
"""Partitions that are asked for in turn."""
PAUSE_SECONDS = 0.002
"""Between two rounds of questions: the brokers are to have their time for more than these."""
STEADY_SECONDS = 1.0
DEATHS = 10
_ERROR = struct.Struct(">h")


class Probe:
    """Asks brokers to take a record each of some partitions."""

    def __init__(self, cluster: Cluster, partitions: Sequence[int]) -> None:
        self._cluster = cluster
        records = rawload.record_batch(100, 1)
        self._frames = {
            index: rawload.produce_frame(TOPIC, index, records, -1) for index in partitions
        }
        self._error_at = 4 + 1 + 1 + len(rawload.compact(TOPIC.encode())) + 1 + 4
        self._links: dict[int, tuple[socket.socket, BinaryIO]] = {}

    def __enter__(self) -> "Probe":
        return self

    def __exit__(self, *_: object) -> None:
        for number in tuple(self._links):
            self._disconnect(number)

    def acknowledged(self, number: int, partitions: Collection[int]) -> Iterator[int]:
        """Yield those of the partitions that a broker has taken a record of; none if it is gone."""
        try:
            link, answers = self._links.get(number) or self._connect(number)
            link.sendall(b"".join(self._frames[index] for index in partitions))
            for index in partitions:
                (size,) = rawload.LENGTH.unpack(answers.read(4) or bytes(4))
                answer = answers.read(size)
                if not _ERROR.unpack_from(answer, self._error_at)[0]:
                    yield index
        except (OSError, struct.error):  # it has gone, in the middle of an answer perhaps
            self._disconnect(number)

    def _connect(self, number: int) -> tuple[socket.socket, BinaryIO]:
        link = rawload.connect(self._cluster.brokers[number].bootstrap)
        self._links[number] = link, link.makefile("rb")
        return self._links[number]

    def _disconnect(self, number: int) -> None:
        for part in self._links.pop(number, ()):
            part.close()


@contextmanager
def gone(hosts: str, number: int) -> Iterator[Callable[[], float]]:
    """Give a function that waits for a broker's registration to go, and tells when it went."""
    at: list[float] = []
    went = threading.Event()

    def happened(event: WatchedEvent) -> None:
        if event.type == EventType.DELETED:
            at.append(time.monotonic())
            went.set()

    def wait() -> float:
        if not went.wait(WAIT_SECONDS_MAX):
            raise TimeoutError(f"broker {number} is registered still")
        return at[0]

    zookeeper = KazooClient(hosts)
    zookeeper.start(30)
    try:
        if zookeeper.exists(f"/brokers/ids/{number}", watch=happened) is None:
            raise RuntimeError(f"broker {number} is not registered")
        yield wait
    finally:
        zookeeper.stop()
        zookeeper.close()


def die(cluster: Cluster, number: int, partitions: int) -> dict[str, float]:
    """Kill a broker; ms to acknowledgements by others.

    From the kill, and from the end of the broker's registration: 0 where they came before it.
    """
    cluster.until_in_sync(TOPIC, partitions)
    led = [index for index, (leader, _) in cluster.in_sync(TOPIC).items() if leader == number]
    asked = led[:: max(len(led) // PROBED, 1)][:PROBED]
    living = [other for other in range(BROKERS) if other != number]
    with gone(cluster.hosts, number) as registration, Probe(cluster, asked) as probe:
        killed = time.monotonic()
        cluster.brokers[number].process.kill()
        cluster.brokers[number].process.wait()
        taken: dict[int, float] = {}
        while len(taken) < len(asked):
            for other in living:
                waiting = [index for index in asked if index not in taken]
                for index in probe.acknowledged(other, waiting):
                    taken[index] = time.monotonic()
            if time.monotonic() - killed > WAIT_SECONDS_MAX:
                raise TimeoutError(f"{len(taken)} of {len(asked)} partitions take records")
            time.sleep(PAUSE_SECONDS)
        went = registration()
    first, last = min(taken.values()), max(taken.values())
    come_back(cluster, number, partitions)
    return {
        "first ack ms": 1000 * max(first - went, 0.0),
        "last ack ms": 1000 * max(last - went, 0.0),
        "last ack ms after the kill": 1000 * (last - killed),
    }


def come_back(cluster: Cluster, number: int, partitions: int) -> None:
    """Start a broker again; return when it leads what it is to lead."""
    cluster.brokers[number].start()
    cluster.brokers[number].wait_ready()
    cluster.until_in_sync(TOPIC, partitions)
    admin = cluster.admin()
    try:
        admin.elect_leaders(ElectionType.PREFERRED).result(60)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.ELECTION_NOT_NEEDED:
            raise
    until(
        lambda: any(leader == number for leader, _ in cluster.in_sync(TOPIC).values()),
        f"broker {number} leads again",
    )
    time.sleep(STEADY_SECONDS)


def deaths(cluster: Cluster, partitions: int, count: int = DEATHS) -> dict[str, float]:
    """Kill the brokers in turn, whoever the controller is; medians."""
    found = [die(cluster, turn % BROKERS, partitions) for turn in range(count)]
    return {name: median(one[name] for one in found) for name in found[0]}


def stop(cluster: Cluster, number: int, partitions: int) -> dict[str, float]:
    """Stop a broker that leads all partitions; the longest time that one of them took no record."""
    asked = range(0, partitions, max(partitions // PROBED, 1))
    process = cluster.brokers[number].process
    with Probe(cluster, asked) as probe:
        leader = dict.fromkeys(asked, number)
        last: dict[int, float] = {}
        longest = dict.fromkeys(asked, 0.0)

        def ask() -> None:
            for other in range(BROKERS):
                mine = [index for index in asked if leader[index] == other]
                taken = set(probe.acknowledged(other, mine))
                now = time.monotonic()
                for index in mine:
                    if index in taken:
                        longest[index] = max(longest[index], now - last.get(index, now))
                        last[index] = now
                    else:
                        leader[index] = (other + 1) % BROKERS
            time.sleep(PAUSE_SECONDS)

        began = time.monotonic()
        while time.monotonic() < began + STEADY_SECONDS:
            ask()
        steady = max(longest.values())
        longest.update(dict.fromkeys(asked, 0.0))
        process.send_signal(signal.SIGTERM)
        told = time.monotonic()
        while process.poll() is None:
            ask()
        took = time.monotonic() - told
        ended = time.monotonic()
        while time.monotonic() < ended + STEADY_SECONDS or min(last.values()) < ended:
            ask()
    return {
        "longest gap ms": 1000 * max(longest.values()),
        "gap before ms": 1000 * steady,
        "stop s": took,
    }
