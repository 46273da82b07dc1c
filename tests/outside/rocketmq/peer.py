"""RocketMQ's own name server and broker: Maven's jars, each in a JVM of its own."""

import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tests.outside.rocketmq.address import Address
from tests.outside.rocketmq.jvm import libraries
from tests.support.processes.process import (
    LOOPBACK,
    Host,
    StartsAndStops,
    free_port,
    wait_or_kill,
)
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
LOGBACK = """<configuration><appender name="f" class="ch.qos.logback.core.FileAppender">
<file>{file}</file><encoder><pattern>%d %-5p %c{{0}} %m%n</pattern></encoder></appender>
<root level="INFO"><appender-ref ref="f"/></root></configuration>
"""
SERVES = "boot success"
"""Printed by a server that listens."""
REGISTERED = "new broker registered"
"""Logged by a name server: until then no topic has a route. Version 5.5.0 may do it 10 s after its
start, because it connects to the name server meanwhile."""


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
    deleted when they stop. Version 4.9 listens on all addresses of its host: it wants a namespace.
    """

    name = "rocketmq"

    def __init__(
        self,
        place: Path | None = None,
        version: str = VERSION,
        host: Host = LOOPBACK,
        **settings: object,
    ) -> None:
        self.version = version
        self.host = host
        self.place = place or Path(tempfile.mkdtemp(prefix="headrace-rocketmq-"))
        self.store = self.place / "store"
        self._is_temporary = place is None
        self.address = Address(free_port(), broker_port())
        self._settings = settings
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Start both; returns when they serve. SystemExit: one of them does not."""
        self._configure()
        self._start("namesrv", "org.apache.rocketmq.namesrv.NamesrvStartup")
        self._start("broker", "org.apache.rocketmq.broker.BrokerStartup")
        self._wait("broker", self.place / "namesrv.log", REGISTERED)

    def run(self, words: Sequence[str], seconds_max: float) -> str:
        """Return the output of a program on their host. AssertionError: it fails."""
        done = subprocess.run(
            [*self.host.within, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=seconds_max, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-6000:]
        return done.stdout

    def _configure(self) -> None:
        self._conf.mkdir(parents=True, exist_ok=True)
        certificate = Authority(self.place).sign()
        (self.place / "tls.properties").write_text(
            TLS.format(key=certificate.key, chain=certificate.chain)
        )
        self._write(
            "namesrv",
            {
                "listenPort": self.address.name_server,
                "bindAddress": self.host.address,
                "kvConfigPath": self.place / "kvConfig.json",
                "configStorePath": self.place / "namesrv.properties",
            },
        )
        self._write(
            "broker",
            {
                "brokerClusterName": "DefaultCluster",
                "brokerName": "broker-a",
                "brokerId": 0,
                "brokerIP1": "127.0.0.1",
                "bindAddress": self.host.address,
                "listenPort": self.address.broker,
                "haListenPort": self.address.broker + 1,
                "namesrvAddr": f"{self.host.address}:{self.address.name_server}",
                "storePathRootDir": self.store,
                "storePathCommitLog": self.store / "commitlog",
                "mappedFileSizeCommitLog": 16 << 20,
            }
            | self._settings,
        )

    @property
    def _conf(self) -> Path:
        return self.place / "conf"

    def _write(self, name: str, settings: dict[str, object]) -> None:
        lines = "".join(f"{key}={value}\n" for key, value in settings.items())
        (self._conf / f"{name}.conf").write_text(lines)
        # Version 4.9 reads the file of this name, 5.x the one that a property names.
        log = self.place / f"{name}.log"
        log.unlink(missing_ok=True)
        (self._conf / f"logback_{name}.xml").write_text(LOGBACK.format(file=log))

    def _start(self, name: str, main: str) -> None:
        command = [
            *self.host.within, *JAVA,
            f"-Duser.home={self.place}", f"-Drocketmq.home.dir={self.place}",
            f"-Drmq.logback.configurationFile={self._conf / f'logback_{name}.xml'}",
            f"-Dtls.config.file={self.place / 'tls.properties'}",
            "-cp", f"{libraries(self.version, 'server.xml')}/*", main,
            "-c", str(self._conf / f"{name}.conf"),
        ]  # fmt: skip
        output = self.place / f"{name}.out"
        with output.open("wb") as out:
            self._processes[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=self.place
            )
        self._wait(name, output, SERVES)

    def _wait(self, name: str, output: Path, text: str) -> None:
        """Wait until a server has written a text. SystemExit: it ended, or takes too long."""
        deadline = time.monotonic() + START_SECONDS_MAX
        said = ""
        while time.monotonic() < deadline and self._processes[name].poll() is None:
            said = output.read_text(errors="replace")
            if text in said:
                return
            time.sleep(0.1)
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
