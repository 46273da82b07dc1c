"""Several real brokers, each a process of its own, on one real ZooKeeper."""

import signal
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.processes.process import (
    HEADRACE,
    LOOPBACK,
    BrokerProcess,
    Host,
    StartsAndStops,
)

SESSION_MS = 6_000
CALM_SESSION_MS = 18_000
"""Kafka's default: for tests that wait for no session's end, and so bear a busy machine."""
WAIT_SECONDS_MAX = 60.0


def until(holds: Callable[[], object], what: str, seconds_max: float = WAIT_SECONDS_MAX) -> None:
    """Return once `holds` answers something true; fail, naming `what`, where it never does."""
    deadline = time.monotonic() + seconds_max
    while not holds():
        assert time.monotonic() < deadline, f"not after {seconds_max:g} s: {what}"
        time.sleep(0.05)


class BrokerCluster(StartsAndStops):
    """Brokers 0 … `count` - 1 in directories below `place`, in a chroot of `hosts` of their own.

    `settings` are lines of every broker's server.properties; `each` adds those of one broker. With
    `at` there is one broker on each of those hosts. `commands` are the headrace that each broker
    runs, ours by default; `run_next` changes one.
    """

    def __init__(
        self,
        place: Path,
        hosts: str,
        count: int = 3,
        each: Callable[[int], dict[str, Any]] | None = None,
        at: Sequence[Host] = (),
        commands: Sequence[Path] = (),
        **settings: Any,
    ) -> None:
        at = at or [LOOPBACK] * count
        self.connect = f"{hosts}/cluster-{uuid4().hex}"
        given: dict[str, Any] = {
            "zookeeper_connect": self.connect,
            "zookeeper_session_timeout_ms": SESSION_MS,
            "offsets_topic_replication_factor": min(3, len(at)),
            "transaction_state_log_replication_factor": min(3, len(at)),
            "transaction_state_log_min_isr": min(2, len(at)),
        }
        self.brokers = [
            BrokerProcess(
                place / f"broker-{number}",
                command=commands[number] if commands else HEADRACE,
                host=host,
                **{**given, **settings, **(each(number) if each else {}), "broker_id": number},
            )
            for number, host in enumerate(at)
        ]
        self._paused: set[int] = set()

    @property
    def bootstrap(self) -> str:
        """All brokers, as in `bootstrap.servers`."""
        return ",".join(broker.bootstrap for broker in self.brokers)

    @property
    def running(self) -> dict[int, BrokerProcess]:
        """Those that neither ended nor stand still."""
        return {
            number: broker
            for number, broker in enumerate(self.brokers)
            if broker.process is not None and number not in self._paused
        }

    @property
    def output(self) -> str:
        """What all of them said, one after the other."""
        return "\n".join(f"broker {n}:\n{b.output}" for n, b in enumerate(self.brokers))

    def start(self) -> None:
        with ExitStack() as undo:
            undo.callback(self.kill)
            for broker in self.brokers:
                broker.start()
            self.until_all_are_here()
            undo.pop_all()

    def stop(self) -> None:
        """End all cleanly, one after the other; those that were paused go on first."""
        for number, broker in enumerate(self.brokers):
            self.resume(number)
            broker.stop()

    def kill(self) -> None:
        """End all as a crash would."""
        for broker in self.brokers:
            broker.kill()

    def run_next(self, number: int, command: Path) -> None:
        """Have one broker run this headrace from its next start on."""
        self.brokers[number].command = command

    def pause(self, number: int) -> None:
        """Make one stand still, its connections open."""
        self._signal(self.brokers[number], signal.SIGSTOP)
        self._paused.add(number)

    def resume(self, number: int) -> None:
        self._signal(self.brokers[number], signal.SIGCONT)
        self._paused.discard(number)

    def mend(self) -> None:
        """Have all brokers run again; return when every one of them tells of all."""
        for number, broker in enumerate(self.brokers):
            self.resume(number)
            if broker.process is None:
                broker.start()
        self.until_all_are_here()

    def admin(self) -> AdminClient:
        """A client of those that run; keep it while its futures are waited for."""
        return self._admin_of(*self.running.values())

    def _admin_of(self, *brokers: BrokerProcess) -> AdminClient:
        addresses = ",".join(broker.bootstrap for broker in brokers)
        return AdminClient({"bootstrap.servers": addresses, "log_level": 0})

    def until_all_are_here(self) -> None:
        """Return when every broker that runs tells of all that do, and of no other."""
        for number, broker in self.running.items():
            admin = self._admin_of(broker)
            until(
                lambda admin=admin: (
                    admin.list_topics(timeout=10).brokers.keys() == self.running.keys()
                ),  # type: ignore[misc]
                f"broker {number} tells of all brokers",
            )

    def create(self, topic: str, partitions: int = 1, replicas: int = 3, **config: Any) -> None:
        """Make a topic, led by each running broker in turn; return when all is in sync."""
        named = {name.replace("_", "."): str(value) for name, value in config.items()}
        brokers = list(self.running)
        firsts = [number % len(brokers) for number in range(partitions)]
        turns = [(brokers[first:] + brokers[:first])[:replicas] for first in firsts]
        new = NewTopic(topic, partitions, replica_assignment=turns, config=named)

        def made() -> bool:
            admin = self.admin()
            try:
                admin.create_topics([new])[topic].result(30)
            except KafkaException as error:
                # Java's client asks the next controller; librdkafka leaves that to who uses it.
                if error.args[0].code() != KafkaError.NOT_CONTROLLER:
                    raise
                return False
            return True

        until(made, f"a controller makes {topic}")
        self.until_in_sync(topic)

    def leader(self, topic: str, partition: int = 0) -> int:
        """The id of its leader, -1 where it has none, as the controller knows it."""
        found = self.admin().list_topics(topic, timeout=10).topics[topic]
        return int(found.partitions[partition].leader)

    def controller(self) -> int:
        """The id of the controller, -1 where the brokers know of none."""
        return int(self.admin().list_topics(timeout=10).controller_id)

    def until_led(self, topic: str, by_others_than: Collection[int] = ()) -> None:
        """Return when each of its partitions has a leader, and none of these."""

        def led() -> bool:
            found = self.admin().list_topics(topic, timeout=10).topics[topic].partitions.values()
            leaders = {partition.leader for partition in found}
            return bool(found) and not leaders & {-1, *by_others_than}

        until(led, f"leaders of {topic} beside {by_others_than}")

    def in_sync(self, topic: str) -> dict[int, tuple[set[int], set[int]]]:
        """Of each partition the assigned and the in-sync replicas."""
        admin = self.admin()
        asked = admin.describe_topics(TopicCollection([topic]))[topic].result(30)
        return {
            partition.id: ({r.id for r in partition.replicas}, {r.id for r in partition.isr})
            for partition in asked.partitions
        }

    def until_in_sync(self, topic: str, seconds_max: float = WAIT_SECONDS_MAX) -> None:
        """Return when every replica of the topic is in the ISR."""

        def whole() -> bool:
            found = self.in_sync(topic).values()
            return bool(found) and all(assigned == isr for assigned, isr in found)

        until(whole, f"all replicas of {topic} in sync", seconds_max)

    def _signal(self, broker: BrokerProcess, which: signal.Signals) -> None:
        if broker.process is not None and broker.process.poll() is None:
            broker.process.send_signal(which)
