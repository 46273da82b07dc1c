"""The brokers of a judgement, each on a directory: Kafka 4.3.1 (KRaft), 3.9.2 (ZooKeeper), ours.

All listen on the loopback only. `stop` is clean, `kill` is not.
"""

import atexit
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from tests.outside.kafka_reads_our_files.jvm import KAFKA_3, KAFKA_4, java
from tests.support.processes.process import StartsAndStops, free_port, wait_or_kill

START_SECONDS_MAX = 90
CLUSTER_ID = "anVkZ2VoZWFkcmFjZTAwMQ"
COMMON = {
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 5,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 5,
    "group.initial.rebalance.delay.ms": 0,
    "offsets.retention.minutes": 50_000_000,
    "log.retention.ms": -1,
    "log.message.timestamp.after.max.ms": 10**15,
    "auto.create.topics.enable": "false",
}
FROZEN = {"log.cleaner.enable": "false"}
"""Nothing is compacted: what is read is what lay there."""


class Process:
    """A program until it is stopped or killed."""

    def __init__(self, place: Path, name: str) -> None:
        self.place = place
        self.name = name
        self.process: subprocess.Popen[bytes] | None = None

    def run(self, command: list[str], port: int, says: bytes = b"") -> None:
        """Start it; returns when the port is open and it has said `says`."""
        self.place.mkdir(parents=True, exist_ok=True)
        output = self.place / f"{self.name}.out"
        with output.open("ab") as out:
            begun = out.tell()
            self.process = subprocess.Popen(command, stdout=out, stderr=out, cwd=self.place)
        atexit.register(self.end, signal.SIGKILL)
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline and self.process.poll() is None:
            with socket.socket() as probe:
                is_open = probe.connect_ex(("127.0.0.1", port)) == 0
            if is_open and says in output.read_bytes()[begun:]:
                return
            time.sleep(0.05)
        text = output.read_text(errors="replace")
        raise AssertionError(f"{self.name} did not start:\n{text[-3000:]}")

    def end(self, how: signal.Signals) -> None:
        """End it and wait for it."""
        process, self.process = self.process, None
        if process is not None and process.poll() is None:
            process.send_signal(how)
            wait_or_kill(process, 60)


class Broker(StartsAndStops):
    """One broker on `log`; `settings` over the common ones."""

    name = ""

    def __init__(self, place: Path, log: Path, **settings: object) -> None:
        self.place = place
        self.log = log
        self.port = free_port()
        self.listeners = f"PLAINTEXT://{self.bootstrap}"
        """The first one is that of clients."""
        self.settings = COMMON | {name.replace("_", "."): value for name, value in settings.items()}
        self.process = Process(place, self.name)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def write_properties(self, **more: object) -> Path:
        found = {
            "listeners": self.listeners,
            "log.dirs": self.log,
            **self.settings,
            **{name.replace("_", "."): value for name, value in more.items()},
        }
        self.place.mkdir(parents=True, exist_ok=True)
        path = self.place / "server.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in found.items()))
        return path

    def start(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        self.process.end(signal.SIGTERM)

    def kill(self) -> None:
        self.process.end(signal.SIGKILL)


class Headrace(Broker):
    """Ours, of this tree."""

    name = "headrace"

    def start(self) -> None:
        path = self.write_properties()
        command = [sys.executable, "-m", "headrace.cli.main", "serve", str(path)]
        # The port is open before the logs are loaded: who came then would wait for that, too.
        self.process.run(command, self.port, says=b"listens on")


class Kafka4(Broker):
    """Apache Kafka 4.3.1, KRaft, one node."""

    name = "kafka-4.3.1"

    def start(self) -> None:
        controller = free_port()
        path = self.write_properties(
            process_roles="broker,controller",
            node_id=1,
            controller_quorum_voters=f"1@127.0.0.1:{controller}",
            listeners=f"{self.listeners},CONTROLLER://127.0.0.1:{controller}",
            controller_listener_names="CONTROLLER",
            listener_security_protocol_map="PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,"
            "CONTROLLER:PLAINTEXT",
        )
        if not (self.log / "meta.properties").exists():
            formatting = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(path)]
            subprocess.run(java(KAFKA_4, 256, *formatting), check=True, capture_output=True)
        self.process.run(java(KAFKA_4, 768, "kafka.Kafka", str(path)), self.port)


class Kafka3(Broker):
    """Apache Kafka 3.9.2 with a ZooKeeper of its own, which lies beside the log."""

    name = "kafka-3.9.2"

    def __init__(self, place: Path, log: Path, **settings: object) -> None:
        super().__init__(place, log, **settings)
        self.tree = log.with_name(log.name + ".zookeeper")
        self._zookeeper = Process(place, "zookeeper")

    def start(self) -> None:
        port = free_port()
        self.tree.mkdir(parents=True, exist_ok=True)
        config = self.place / "zoo.cfg"
        self.place.mkdir(parents=True, exist_ok=True)
        config.write_text(
            f"dataDir={self.tree}\nclientPort={port}\nclientPortAddress=127.0.0.1\n"
            "admin.enableServer=false\nmaxClientCnxns=0\n"
        )
        zookeeper = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        self._zookeeper.run(java(KAFKA_3, 256, zookeeper, str(config)), port)
        path = self.write_properties(broker_id=0, zookeeper_connect=f"127.0.0.1:{port}")
        command = java(KAFKA_3, 768, "kafka.Kafka", str(path))
        deadline = time.monotonic() + START_SECONDS_MAX
        while True:
            try:
                return self.process.run(command, self.port)
            except AssertionError:
                # After a kill it ends by itself while its old session is known to ZooKeeper.
                if time.monotonic() > deadline:
                    raise

    def stop(self) -> None:
        super().stop()
        self._zookeeper.end(signal.SIGTERM)

    def kill(self) -> None:
        super().kill()
        self._zookeeper.end(signal.SIGTERM)


KAFKAS: list[type[Broker]] = [Kafka4, Kafka3]


def copied(log: Path, target: Path) -> Path:
    """A copy of a log directory, with the ZooKeeper that belongs to it."""
    shutil.copytree(log, target, symlinks=True, ignore=shutil.ignore_patterns("*.sock"))
    tree = log.with_name(log.name + ".zookeeper")
    if tree.exists():
        shutil.copytree(tree, target.with_name(target.name + ".zookeeper"))
    return target


def command(*words: str, status: int = 0) -> str:
    """Our command's output; it must end with `status`."""
    result = subprocess.run(
        [sys.executable, "-m", "headrace.cli.main", *words],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ,
    )
    assert result.returncode == status, (words, result.stdout[-3000:], result.stderr[-3000:])
    return result.stdout
