"""The brokers under measurement: start, readiness, CPU and memory as the kernel has them, stop."""

import compileall
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import ClassVar, TypeVar

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.checkouts import HERE, Checkout
from tests.outside.kafka_reads_our_files.jvm import KAFKA_4, libraries
from tests.support.processes.process import wait_or_kill

T = TypeVar("T")

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
START_SECONDS_MAX = 180


def free_port() -> int:
    """A TCP port of the loopback nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Broker(ABC):
    """One broker process on a directory of its own."""

    durable: bool
    """Whether a write is on disk before it is acknowledged; else the page cache is enough."""
    settings: str = ""
    """Lines of its configuration beside those that every measurement needs."""
    tls_port: int = field(default=0, kw_only=True)
    """Where it speaks TLS beside its own listener, by the keystore in its settings; 0: nowhere."""
    name: str = field(init=False)
    port: int = field(init=False, default=0)
    started: float = field(init=False, default=0.0)
    directory: Path = field(init=False)
    process: "subprocess.Popen[bytes]" = field(init=False)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def listeners(self) -> str:
        """Its own listener, and that by TLS."""
        own = f"PLAINTEXT://{self.bootstrap}"
        return f"{own},SSL://127.0.0.1:{self.tls_port}" if self.tls_port else own

    def __enter__(self) -> "Broker":
        self.place()
        self.start()
        self.wait_ready()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.remove()

    def place(self) -> None:
        """Make its directory and configuration."""
        self.directory = Path(tempfile.mkdtemp(prefix=f"bench-{self.name}-"))
        self.port = free_port()
        self.prepare()
        with (self.directory / "server.properties").open("a") as properties:
            properties.write(self.settings)

    def remove(self) -> None:
        """Delete all that it has written."""
        shutil.rmtree(self.directory, ignore_errors=True)

    @abstractmethod
    def prepare(self) -> None:
        """Write the configuration."""

    @abstractmethod
    def command(self) -> list[str]:
        """What starts it."""

    def environment(self) -> dict[str, str]:
        return dict(os.environ)

    def start(self) -> None:
        self.started = time.monotonic()
        log = (self.directory / "output.log").open("ab")
        self.process = subprocess.Popen(
            self.command(), stdout=log, stderr=log, cwd=self.directory, env=self.environment()
        )
        log.close()

    def wait_ready(self) -> None:
        """Return when it accepts connections."""
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.005)
        output = (self.directory / "output.log").read_text(errors="replace")
        raise RuntimeError(f"{self.name} did not start:\n{output[-3000:]}")

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            wait_or_kill(self.process, 30)

    def cpu_seconds(self) -> float:
        """User and system time of the process so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND

    def rss_megabytes(self) -> float:
        """Resident memory now."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * PAGE_BYTES / 1e6

    def create_topic(self, topic: str, partitions: int) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        config = {"file.delete.delay.ms": "500", "retention.ms": "-1"}
        wanted = NewTopic(topic, partitions, 1, config=config)
        for future in admin.create_topics([wanted]).values():
            future.result(60)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            found = admin.list_topics(topic, timeout=10).topics[topic]
            if len(found.partitions) == partitions and found.error is None:
                return
            time.sleep(0.05)
        raise RuntimeError(f"{self.name}: topic {topic} does not come up")

    def delete_topic(self, topic: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for future in admin.delete_topics([topic]).values():
            future.result(30)
        time.sleep(1.5)  # the files go after file.delete.delay.ms: the next row gets their memory

    def first_acknowledged_produce(self) -> float:
        """Seconds from exec to the first record acknowledged by all in-sync replicas."""
        settings = {
            "bootstrap.servers": self.bootstrap,
            "acks": "all",
            "reconnect.backoff.ms": 5,
            "reconnect.backoff.max.ms": 20,
            "topic.metadata.refresh.fast.interval.ms": 10,
            "retry.backoff.ms": 5,
            "linger.ms": 0,
            "log_level": 0,
            "allow.auto.create.topics": True,
        }
        producer = Producer(settings)
        failures: list[object] = []

        def delivered(error: object, _: object) -> None:
            if error is not None:
                failures.append(error)

        producer.produce("bench-first", b"x", on_delivery=delivered)
        if producer.flush(START_SECONDS_MAX) or failures:
            raise KafkaException(failures[0] if failures else "no acknowledgement")
        return time.monotonic() - self.started


@dataclass
class Headrace(Broker):
    """Ours, of this checkout or another."""

    checkout: Checkout = HERE

    def __post_init__(self) -> None:
        self.name = self.checkout.name

    def environment(self) -> dict[str, str]:
        return self.checkout.environment()

    def prepare(self) -> None:
        # As pip leaves an installed package: a start is not to be measured with a compiler in it.
        compileall.compile_dir(self.checkout.root / "src", quiet=2)
        (self.directory / "server.properties").write_text(
            f"listeners={self.listeners}\n"
            f"log.dirs={self.directory / 'log'}\n"
            f"log.flush.on.ack={str(self.durable).lower()}\n"
            "group.initial.rebalance.delay.ms=0\n"
        )

    def command(self) -> list[str]:
        executable = self.checkout.python.with_name("headrace")
        return [str(executable), "serve", str(self.directory / "server.properties")]


@dataclass
class Kafka(Broker):
    """Apache Kafka 4.3.1, one node, KRaft, 1 GB heap as its start script gives it."""

    quiet: ClassVar = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    """What has its logging say warnings only."""

    def __post_init__(self) -> None:
        self.name = "kafka"

    def nodes(self) -> tuple[int, Mapping[int, int]]:
        """Its node id, and the port of each node's controller."""
        return 1, {1: free_port()}

    def prepare(self) -> None:
        number, controllers = self.nodes()
        voters = ",".join(f"{node}@127.0.0.1:{port}" for node, port in controllers.items())
        controller = controllers[number]
        flush = "log.flush.interval.messages=1\n" if self.durable else ""
        (self.directory / "server.properties").write_text(
            f"process.roles=broker,controller\nnode.id={number}\n"
            f"controller.quorum.voters={voters}\n"
            f"listeners={self.listeners},CONTROLLER://127.0.0.1:{controller}\n"
            "controller.listener.names=CONTROLLER\n"
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT\n"
            f"log.dirs={self.directory / 'log'}\n"
            "offsets.topic.replication.factor=1\ntransaction.state.log.replication.factor=1\n"
            "transaction.state.log.min.isr=1\ngroup.initial.rebalance.delay.ms=0\n"
            "share.coordinator.state.topic.replication.factor=1\n"
            "share.coordinator.state.topic.min.isr=1\n"
            f"{flush}"
        )
        command = [*self.java(), "kafka.tools.StorageTool", "format", "-t"]
        command += ["YmVuY2hoZWFkcmFjZTAwMQ", "-c", str(self.directory / "server.properties")]
        subprocess.run(command, check=True, capture_output=True, cwd=self.directory)

    def class_path(self) -> str:
        """Its jars, fetched where they are missing."""
        return libraries(KAFKA_4)

    def java(self) -> list[str]:
        options = ["-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"]
        return ["java", *options, self.quiet, "-cp", self.class_path()]

    def command(self) -> list[str]:
        return [*self.java(), "kafka.Kafka", str(self.directory / "server.properties")]


@dataclass(frozen=True)
class Subject:
    """What a table has a column for: its brokers, and where it is ours, its checkout."""

    name: str
    broker: Callable[..., Broker]
    """Makes a broker that is, or is not, to flush before it acknowledges."""
    checkout: Checkout | None


OURS = Subject("headrace", Headrace, HERE)
KAFKA = Subject("kafka", Kafka, None)


def another(root: Path) -> Subject:
    """Another checkout of ours. ValueError: there is none."""
    checkout = Checkout.at("other", root)
    return Subject(checkout.name, partial(Headrace, checkout=checkout), checkout)


def in_turn(subjects: Sequence[T], round_number: int) -> Sequence[T]:
    """The subjects of a round: each goes first as often as the other."""
    return subjects if round_number % 2 == 0 else subjects[::-1]
