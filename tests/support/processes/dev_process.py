"""`headrace dev` as a process: a cluster of several brokers."""

import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.processes.process import HEADRACE

START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 20.0


@contextmanager
def trial(
    place: Path, *words: str, headrace: Path = HEADRACE, end: signal.Signals = signal.SIGINT
) -> Iterator[str]:
    """Run a cluster of three in a process; yield its bootstrap servers, and end it by a signal."""
    command = [str(headrace), "dev", "--port", "0", *words]
    output = place / "output"
    with output.open("wb") as file, subprocess.Popen(command, stdout=file, stderr=file) as process:
        try:
            deadline = time.monotonic() + START_SECONDS_MAX
            while "Ctrl-C" not in output.read_text():
                assert process.poll() is None, output.read_text()
                assert time.monotonic() < deadline, output.read_text()
                time.sleep(0.05)
            (bootstrap,) = re.findall("^bootstrap.servers=(.*)$", output.read_text(), re.MULTILINE)
            yield bootstrap
            process.send_signal(end)
            assert process.wait(STOP_SECONDS_MAX) == (0 if end is signal.SIGINT else -end)
            told = output.read_text()  # that another is slow may be said
            assert "Traceback" not in told, told
            assert "CRITICAL" not in told, told
        finally:
            process.kill()


def amqp_ports(place: Path) -> list[int]:
    """The brokers' ports of AMQP that the newest start has printed."""
    said = re.findall("listens on AMQP://127.0.0.1:([0-9]+)", (place / "output").read_text())
    return [int(port) for port in said]
