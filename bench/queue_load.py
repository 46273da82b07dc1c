"""The load generator for queues: a program of ours in Go (bench/peers/rabbitmq), run as a process.

It speaks AMQP by frames made beforehand, so that it takes little of the machine: `sink` is the
broker that does no work, against which it says how much it could.
"""

import functools
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.outside.kafka_tools.programs import go_program
from tests.support.processes.process import wait_or_kill

PROGRAM = Path(__file__).parent / "peers" / "rabbitmq"
_SECONDS_MAX = 300.0


class Load(NamedTuple):
    """What the generator did."""

    messages: int
    seconds: float
    cpu: float
    """Its own CPU seconds."""
    p50: float
    p99: float
    """Milliseconds from sending to arrival; of `latency` alone."""

    @property
    def per_second(self) -> float:
        return self.messages / self.seconds


@functools.cache
def command() -> list[str]:
    """How it is started; it is built where it is not the newest. Missing."""
    return go_program(PROGRAM)


def run(what: str, address: str, **options: object) -> Load:
    """Run one measurement; `options` are the program's. RuntimeError: it failed."""
    words = [word for name, value in options.items() for word in (f"-{name}", str(value))]
    done = subprocess.run(
        [*command(), what, "-address", address, *words],
        capture_output=True, text=True, check=False, timeout=_SECONDS_MAX,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"load generator, {what}: {done.stderr[-2000:].strip()}")
    return Load(**json.loads(done.stdout))


@contextmanager
def sink(size: int) -> Iterator[str]:
    """Run the broker that does no work; its address. It hands out messages of `size` bytes."""
    process = subprocess.Popen(
        [*command(), "sink", "-size", str(size)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        wait_or_kill(process, 10)
        if process.stdout is not None:
            process.stdout.close()
