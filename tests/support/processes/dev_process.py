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
def trial(place: Path, *words: str) -> Iterator[str]:
    """A cluster of three in a process; yields its bootstrap servers. Ends it by Ctrl-C."""
    command = [str(HEADRACE), "dev", "--port", "0", *words]
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
            process.send_signal(signal.SIGINT)
            assert process.wait(STOP_SECONDS_MAX) == 0
            told = output.read_text()  # that another is slow may be said
            assert "Traceback" not in told, told
            assert "CRITICAL" not in told, told
        finally:
            process.kill()
