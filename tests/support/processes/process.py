"""A real broker in a process of its own, to be started, stopped and killed."""

import os
import random
import select
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

START_SECONDS_MAX = 60.0
HEADRACE = Path(sys.executable).with_name("headrace")
PORTS = range(12_000, 32_000)
"""Below those the kernel gives to connections: one it gave away would be missing when a broker that
was killed starts again."""


class Host(NamedTuple):
    """Where a process runs and is reached."""

    address: str = "127.0.0.1"
    within: tuple[str, ...] = ()
    """What stands before a command to run it there, as `nsenter --net=NAME`."""


LOOPBACK = Host()


def free_port() -> int:
    """A TCP port of the loopback nobody listens on now, and no connection is given."""
    while True:
        with socket.socket() as probe, suppress(OSError):
            # Not seeded: tests that run side by side are, all alike.
            port = random.SystemRandom().choice(PORTS)
            probe.bind(("127.0.0.1", port))
            return port


def headrace(bootstrap: str, *words: str, typed: str = "") -> str:
    """What our command says when it is asked this of a cluster, and told this on standard input."""
    command = [str(HEADRACE), *words, "-b", bootstrap]
    done = subprocess.run(command, input=typed, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def wait_or_kill(process: "subprocess.Popen[Any]", seconds_max: float) -> None:
    """Wait for a process that was asked to end; kill it where it takes longer."""
    try:
        process.wait(seconds_max)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class StartsAndStops:
    """What runs within a `with`."""

    def start(self) -> object:
        raise NotImplementedError

    def stop(self) -> object:
        raise NotImplementedError

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


class BrokerProcess(StartsAndStops):
    """`headrace serve` on a directory; `settings` are lines of its server.properties.

    `command` is the headrace to run, ours by default; `path` replaces PATH. On a host other than
    the loopback it listens without encryption: only where no other machine can reach it.
    """

    def __init__(
        self,
        directory: Path,
        port: int | None = None,
        command: Path = HEADRACE,
        path: str | None = None,
        host: Host = LOOPBACK,
        **settings: object,
    ) -> None:
        self.directory = directory
        self.host = host
        self.command = command
        self.environment = os.environ | ({"PATH": path} if path is not None else {})
        self.port = port or free_port()
        self.settings = {
            "listeners": f"PLAINTEXT://{self.bootstrap}",
            "log.dirs": str(directory / "log"),
            "group.initial.rebalance.delay.ms": 100,
        } | {name.replace("_", "."): value for name, value in settings.items()}
        if host != LOOPBACK:
            self.settings["insecure.listeners"] = "true"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"{self.host.address}:{self.port}"

    @property
    def output(self) -> str:
        """What it said so far, all starts together."""
        return (self.directory / "output.log").read_text(errors="replace")

    def start(self) -> float:
        """Start and return the seconds from exec to the first answered request."""
        self.directory.mkdir(parents=True, exist_ok=True)
        properties = self.directory / "server.properties"
        properties.write_text("".join(f"{k}={v}\n" for k, v in self.settings.items()))
        started = time.monotonic()
        with (self.directory / "output.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*self.host.within, str(self.command), "serve", str(properties)],
                stdout=log,
                stderr=log,
                env=self.environment,
            )
        while time.monotonic() < started + START_SECONDS_MAX:
            if self.process.poll() is not None:
                break
            if self._answers():
                return time.monotonic() - started
            time.sleep(0.002)
        self.kill()
        raise AssertionError(f"the broker does not answer:\n{self.output[-4000:]}")

    def _answers(self) -> bool:
        """Whether an ApiVersions v0 request is answered."""
        with socket.socket() as probe:
            if probe.connect_ex((self.host.address, self.port)):
                return False
            try:
                probe.sendall(bytes.fromhex("0000000a 0012 0000 00000001 ffff"))
                readable, _, _ = select.select([probe], [], [], 5)
                return bool(readable) and len(probe.recv(4)) == 4
            except ConnectionError:
                return False  # it listened, and then could not start

    def kill(self) -> None:
        """SIGKILL, as a crash."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM and the exit status."""
        return self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> int:
        process = self.process
        if process is None:
            return 0
        if process.poll() is None:
            process.send_signal(how)
        self.process = None
        return process.wait(30)
