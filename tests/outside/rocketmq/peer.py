"""RocketMQ's own name server and broker on the loopback: Maven's jars, each in a JVM of its own."""

import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from tests.outside.rocketmq.address import Address
from tests.outside.rocketmq.jvm import libraries
from tests.support.processes.process import StartsAndStops, free_port, wait_or_kill
from tests.support.security.certificates import Authority

VERSION = "5.5.0"
START_SECONDS_MAX = 120.0
STOP_SECONDS_MAX = 60.0
JAVA = (
    "java", "-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:MaxDirectMemorySize=512m",
    *(
        f"--add-opens=java.base/{package}=ALL-UNNAMED"
        for package in ("java.nio", "sun.nio.ch", "java.lang", "java.util")
    ),
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    # Whatever else is on the machine's disk.
    "-Dcom.rocketmq.broker.diskSpaceWarningLevelRatio=0.99",
)  # fmt: skip
TLS = """tls.test.mode.enable=false
tls.server.need.client.auth=none
tls.server.keyPath={key}
tls.server.certPath={chain}
"""


def listens(port: int) -> bool:
    """Return whether a connection to a port of the loopback is accepted."""
    with socket.socket() as probe, suppress(OSError):
        probe.settimeout(5)
        probe.connect(("127.0.0.1", port))
        return True
    return False


def broker_port() -> int:
    """Return a free port whose neighbours are free: of the VIP channel, and of replication."""
    while True:
        port = free_port()
        with suppress(OSError):
            for neighbour in (port - 2, port + 1):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", neighbour))
            return port


class RocketMQ(StartsAndStops):
    """A name server and a broker, with TLS for clients that ask for it.

    `settings` are the broker's. Their data is in `place` and stays there; without `place` it is
    deleted when they stop.
    """

    name = "rocketmq"

    def __init__(
        self, place: Path | None = None, version: str = VERSION, **settings: object
    ) -> None:
        self.version = version
        self.place = place or Path(tempfile.mkdtemp(prefix="headrace-rocketmq-"))
        self._is_temporary = place is None
        self.address = Address(free_port(), broker_port())
        self._settings = settings
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Start both; returns when the name server has the broker's route. SystemExit."""
        self._configure()
        self._run("namesrv", "org.apache.rocketmq.namesrv.NamesrvStartup", self.address.name_server)
        self._run("broker", "org.apache.rocketmq.broker.BrokerStartup", self.address.broker)
        # The broker registers itself before it listens, and again when a topic is created.
        time.sleep(1)

    def _configure(self) -> None:
        certificate = Authority(self.place).sign()
        (self.place / "tls.properties").write_text(
            TLS.format(key=certificate.key, chain=certificate.chain)
        )
        self._write(
            "namesrv",
            {
                "listenPort": self.address.name_server,
                "bindAddress": "127.0.0.1",
                "kvConfigPath": self.place / "kvConfig.json",
                "configStorePath": self.place / "namesrv.properties",
            },
        )
        store = self.place / "store"
        self._write(
            "broker",
            {
                "brokerClusterName": "DefaultCluster",
                "brokerName": "broker-a",
                "brokerId": 0,
                "brokerIP1": "127.0.0.1",
                "bindAddress": "127.0.0.1",
                "listenPort": self.address.broker,
                "haListenPort": self.address.broker + 1,
                "namesrvAddr": self.address.names,
                "storePathRootDir": store,
                "storePathCommitLog": store / "commitlog",
                "mappedFileSizeCommitLog": 16 << 20,
            }
            | self._settings,
        )

    def _write(self, name: str, settings: dict[str, object]) -> None:
        lines = "".join(f"{key}={value}\n" for key, value in settings.items())
        (self.place / f"{name}.conf").write_text(lines)

    def _run(self, name: str, main: str, port: int) -> None:
        command = [
            *JAVA, f"-Duser.home={self.place}", f"-Drocketmq.home.dir={self.place}",
            f"-Dtls.config.file={self.place / 'tls.properties'}",
            "-cp", f"{libraries(self.version, 'server.xml')}/*", main,
            "-c", str(self.place / f"{name}.conf"),
        ]  # fmt: skip
        output = self.place / f"{name}.out"
        with output.open("ab") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out, cwd=self.place)
        self._processes[name] = process
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline and process.poll() is None:
            if listens(port):
                return
            time.sleep(0.1)
        said = output.read_text(errors="replace")
        self.stop()
        raise SystemExit(f"RocketMQ's {name} did not start:\n{said[-3000:]}")

    def stop(self) -> None:
        """End the broker, then the name server."""
        for name in ("broker", "namesrv"):
            process = self._processes.pop(name, None)
            if process is not None and process.poll() is None:
                process.terminate()
                wait_or_kill(process, STOP_SECONDS_MAX)
        if self._is_temporary:
            shutil.rmtree(self.place, ignore_errors=True)


def main() -> int:
    """Run one until it is interrupted; prints its address."""
    with suppress(KeyboardInterrupt), RocketMQ() as running:
        print(running.address.names, running.address.broker, flush=True)
        while True:
            time.sleep(60)
    return 0


if __name__ == "__main__":
    sys.exit(main())
