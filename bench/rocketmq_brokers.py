"""Brokers of RocketMQ's clients: ours with a listener for them, and RocketMQ 5.5.0 itself.

RocketMQ is its name server and its broker, two JVMs, with their own defaults on the loopback. The
heaps are smaller than those of its start scripts (4 and 8 GB), so that memory is compared with what
it needs. `durable` is SYNC_FLUSH there, and `log.flush.on.ack` here; its default is ASYNC_FLUSH.
"""

import signal
import socket
import subprocess
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from bench.checkouts import HERE, Checkout
from bench.process_tree import anonymous_megabytes, cpu_seconds, resident_megabytes
from bench.rocketmq_load import JavaClient, java_options
from bench.subjects import START_SECONDS_MAX, Broker, Headrace, Subject, free_port
from tests.support.processes.process import wait_or_kill

STOP_SECONDS_MAX = 60.0
HEAPS = {"namesrv": "256m", "broker": "512m"}
_DISK_RATIO = 0.97


def flush_type(durable: bool) -> str:
    """RocketMQ's `flushDiskType` of a pairing."""
    return "SYNC_FLUSH" if durable else "ASYNC_FLUSH"


@dataclass
class RocketmqHeadrace(Headrace):
    """Ours with a listener for RocketMQ's clients."""

    remoting_port: int = field(default_factory=free_port)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.client = JavaClient(self.name_server)

    @property
    def listeners(self) -> str:
        return f"{super().listeners},ROCKETMQ://{self.name_server}"

    @property
    def name_server(self) -> str:
        """The address of the name server's role, `host:port`."""
        return f"127.0.0.1:{self.remoting_port}"

    def stop(self) -> None:
        self.client.stop()
        super().stop()

    def anonymous_megabytes(self) -> float:
        """Resident memory that is not of files."""
        return anonymous_megabytes([self.process.pid])


@dataclass
class RocketmqPeer(Broker):
    """Apache RocketMQ 5.5.0: one name server and one broker."""

    servers: "dict[str, subprocess.Popen[bytes]]" = field(init=False, default_factory=dict)
    broker_port: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.name = "rocketmq"

    @property
    def name_server(self) -> str:
        """The address of the name server, `host:port`."""
        return self.bootstrap

    def prepare(self) -> None:
        self.client = JavaClient(self.name_server)
        self.broker_port = free_port()
        store = self.directory / "store"
        (self.directory / "namesrv.conf").write_text(
            f"listenPort={self.port}\nbindAddress=127.0.0.1\n"
            f"kvConfigPath={self.directory / 'kvConfig.json'}\n"
            f"configStorePath={self.directory / 'namesrv.properties'}\n"
        )
        (self.directory / "broker.conf").write_text(
            "brokerClusterName=DefaultCluster\nbrokerName=broker-a\nbrokerId=0\n"
            f"brokerIP1=127.0.0.1\nlistenPort={self.broker_port}\nbindAddress=127.0.0.1\n"
            f"haListenPort={free_port()}\nnamesrvAddr={self.name_server}\n"
            f"storePathRootDir={store}\nstorePathCommitLog={store / 'commitlog'}\n"
            f"flushDiskType={flush_type(self.durable)}\n"
        )

    def command(self) -> list[str]:
        """The broker's; its name server runs already."""
        return self._java("broker", "org.apache.rocketmq.broker.BrokerStartup")

    def _java(self, server: str, main: str) -> list[str]:
        heap = HEAPS[server]
        return [
            "java", "-server", f"-Xms{heap}", f"-Xmx{heap}", "-XX:+UseG1GC",
            "-XX:MaxDirectMemorySize=512m", *java_options(self.directory),
            f"-Drocketmq.home.dir={self.directory}",
            f"-Dcom.rocketmq.broker.diskSpaceWarningLevelRatio={_DISK_RATIO}",
            main, "-c", str(self.directory / f"{server}.conf"),
        ]  # fmt: skip

    def start(self) -> None:
        """Start the name server, and once it listens the broker, which registers with it."""
        self.started = time.monotonic()
        self._run("namesrv", self._java("namesrv", "org.apache.rocketmq.namesrv.NamesrvStartup"))
        self._wait_for("namesrv", self.port)
        self._run("broker", self.command())

    def _run(self, server: str, command: list[str]) -> None:
        with (self.directory / f"{server}.out").open("ab") as log:
            self.servers[server] = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=self.directory
            )

    def wait_ready(self) -> None:
        self._wait_for("broker", self.broker_port)

    def _wait_for(self, server: str, port: int) -> None:
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline and self.servers[server].poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            time.sleep(0.005)
        output = (self.directory / f"{server}.out").read_text(errors="replace")
        raise RuntimeError(f"{self.name}'s {server} did not start:\n{output[-3000:]}")

    def stop(self) -> None:
        self.client.stop()
        for server in reversed(list(self.servers)):
            process = self.servers.pop(server)
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                wait_or_kill(process, STOP_SECONDS_MAX)

    def _process_ids(self) -> list[int]:
        return [process.pid for process in self.servers.values()]

    def cpu_seconds(self) -> float:
        """Of both servers."""
        return cpu_seconds(self._process_ids())

    def rss_megabytes(self) -> float:
        """Of both servers."""
        return resident_megabytes(self._process_ids())

    def anonymous_megabytes(self) -> float:
        """Resident memory of both servers that is not of files."""
        return anonymous_megabytes(self._process_ids())


OURS = Subject("headrace", RocketmqHeadrace, HERE)
ROCKETMQ = Subject("rocketmq", RocketmqPeer, None)


def another(root: Path) -> Subject:
    """Return the subject of another checkout. ValueError: there is no checkout at `root`."""
    checkout = Checkout.at("other", root)
    return Subject(checkout.name, partial(RocketmqHeadrace, checkout=checkout), checkout)
