"""Processes that tests and benchmarks start end with them."""

import signal
import subprocess
import sys

from tests.support.processes.process import wait_or_kill


def test_a_process_that_does_not_end_when_asked_is_killed() -> None:
    deaf = (
        "import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", deaf], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout as said:
        said.readline()
        process.terminate()
        wait_or_kill(process, 0.1)
    assert process.returncode == -signal.SIGKILL


def test_a_process_that_ends_is_waited_for() -> None:
    process = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    wait_or_kill(process, 30)
    assert process.returncode == 3
