"""The clients of `make bench PEER=rocketmq`: RocketMQ's own in Java, and a generator of ours in Go.

The generator (bench/peers/rocketmq-load) sends frames made beforehand, so that it takes little of
the machine. The Java program (bench/peers/rocketmq) shares it with the broker, as a client does. It
stays up from its first measurement until its broker stops, so that its JVM is warm.
"""

import functools
import json
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from bench.process_tree import cpu_seconds
from tests.outside.kafka_reads_our_files.jvm import libraries
from tests.outside.kafka_tools.programs import go_program, java_classes
from tests.support.processes.process import wait_or_kill

GENERATOR = Path(__file__).parent / "peers" / "rocketmq-load"
JAVA = Path(__file__).parent / "peers" / "rocketmq"
FAILED_SHARE_MAX = 0.1
"""Sends that a busy RocketMQ may refuse, of all: those that wait longer than 200 ms there."""
_SECONDS_MAX = 300.0
_OPENED = (
    "java.base/java.nio", "java.base/sun.nio.ch", "java.base/java.lang", "java.base/java.util",
)  # fmt: skip
_LOGBACK = """<configuration>
  <statusListener class="org.apache.rocketmq.logging.ch.qos.logback.core.status.NopStatusListener"/>
  <root level="WARN"/>
</configuration>
"""


class Load(NamedTuple):
    """The messages of a measurement."""

    messages: int
    seconds: float
    cpu: float
    """The client's own CPU seconds."""
    failed: int = 0
    """Sends that were refused."""
    p50: float = 0.0
    p99: float = 0.0
    """Milliseconds from sending to arrival; of `latency` alone."""

    @property
    def per_second(self) -> float:
        return self.messages / self.seconds


@functools.cache
def _generator() -> list[str]:
    return go_program(GENERATOR)


def run(what: str, name_server: str, **options: object) -> Load:
    """Run the generator; `options` are the program's. RuntimeError: it failed."""
    words = [
        word
        for name, value in options.items()
        for word in (f"-{name.replace('_', '-')}", str(value))
    ]
    done = subprocess.run(
        [*_generator(), what, "-name-server", name_server, *words],
        capture_output=True, text=True, check=False, timeout=_SECONDS_MAX,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"load generator, {what}: {done.stderr[-2000:].strip()}")
    return _checked(what, Load(**json.loads(done.stdout)))


def _checked(what: str, load: Load) -> Load:
    if load.failed > FAILED_SHARE_MAX * (load.messages + load.failed):
        raise RuntimeError(f"{what}: {load.failed} sends of {load.messages + load.failed} failed")
    return load


def java_options(directory: Path) -> list[str]:
    """The options of RocketMQ's programs: their class path, and their logs below a directory."""
    logback = directory / "logback.xml"
    logback.write_text(_LOGBACK)
    return [
        *(f"--add-opens={opened}=ALL-UNNAMED" for opened in _OPENED),
        "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
        f"-Duser.home={directory}",
        f"-Drocketmq.client.logRoot={directory}",
        f"-Drmq.logback.configurationFile={logback}",
        "-cp", f"{java_classes(JAVA)}:{libraries(JAVA)}",
    ]  # fmt: skip


class JavaClient:
    """RocketMQ's Java client in a process of its own, started by its first measurement."""

    def __init__(self, name_server: str) -> None:
        """`name_server`: the address, `host:port`."""
        self._name_server = name_server
        self._process: subprocess.Popen[str] | None = None
        self._directory: Path | None = None

    def run(self, what: str, *words: object) -> Load:
        """Run one measurement. RuntimeError: it failed."""
        process = self._process
        if process is None or process.poll() is not None:
            self.stop()
            process = self._start()
        cpu = cpu_seconds([process.pid])
        assert process.stdin is not None
        process.stdin.write(" ".join(map(str, (what, *words))) + "\n")
        process.stdin.flush()
        found = json.loads(self._line(process))
        return _checked(what, Load(cpu=cpu_seconds([process.pid]) - cpu, **found))

    def _start(self) -> "subprocess.Popen[str]":
        directory = self._directory = Path(tempfile.mkdtemp(prefix="bench-rocketmq-client-"))
        with (directory / "client.err").open("wb") as errors:
            process = self._process = subprocess.Popen(
                ["java", "-Xms256m", "-Xmx256m", *java_options(directory), "Load",
                 self._name_server],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
            )  # fmt: skip
        self._line(process)
        return process

    def _line(self, process: "subprocess.Popen[str]") -> str:
        """Return the program's next line. RuntimeError: it ended."""
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            assert self._directory is not None
            errors = (self._directory / "client.err").read_text(errors="replace")
            raise RuntimeError(f"the Java client failed:\n{errors[-3000:]}")
        return line

    def stop(self) -> None:
        """End the process, if there is one."""
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()
            wait_or_kill(process, 10)
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)


def first_acknowledged_send(name_server: str, started: float) -> float:
    """Return the seconds since `started` at which a send to a new topic is acknowledged."""
    run("create", name_server, topic="bench-first", queues=1)
    run("send", name_server, topic="bench-first", queues=1, messages=1)
    return time.monotonic() - started
