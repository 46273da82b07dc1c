"""A copier whose library waits for nothing ends, is begun again, and is counted."""

import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.chaos.copier import LIBRARY_WAITS
from tests.chaos.load import CopierProcess

WAITING = """
import sys, threading, time
from tests.chaos import copier
copier.LOOK_SECONDS, seconds, calls = 0.02, float(sys.argv[1]), int(sys.argv[2])
class Library:
    def __init__(self, settings): pass
    def consumer_group_metadata(self): pass
    def send_offsets_to_transaction(self, *given):
        print("sending", flush=True)
        time.sleep(seconds)
copier.Consumer = copier.Producer = Library
at_work = copier.Copier("", "copier-0", sys.argv[3])
for _ in range(calls):
    at_work._count += 1
    at_work._send_offsets([])
"""


def command(directory: Path, seconds: float, calls: int) -> list[str]:
    return [sys.executable, "-c", WAITING, str(seconds), str(calls), str(directory / "notes")]


def ended(directory: Path, seconds: float, calls: int) -> subprocess.CompletedProcess[str]:
    """A copier that sends offsets so often, each time for `seconds`."""
    given = command(directory, seconds, calls)
    return subprocess.run(given, capture_output=True, text=True, timeout=60)


def test_a_call_that_never_returns_ends_the_copier_with_a_status_of_its_own(tmp_path: Path) -> None:
    copier = ended(tmp_path, 50.0, 1)
    assert copier.returncode == LIBRARY_WAITS
    assert "waits in send_offsets_to_transaction" in copier.stderr


def test_calls_that_return_are_no_wait_however_many_follow(tmp_path: Path) -> None:
    assert ended(tmp_path, 0.1, 10).returncode == 0


def test_copiers_begun_again_for_it_are_counted_and_others_are_not(tmp_path: Path) -> None:
    process = CopierProcess("127.0.0.1:1", "copier-0", tmp_path)
    process.process.kill()
    process.process.wait()
    process.tend()
    assert process.library_waits == 0
    process.process.kill()
    process.process.wait()
    process._command = [sys.executable, "-c", f"raise SystemExit({LIBRARY_WAITS})"]
    process.process = subprocess.Popen(process._command)
    deadline = time.monotonic() + 30
    while not process.library_waits and time.monotonic() < deadline:
        time.sleep(0.02)
        process.tend()
    assert process.library_waits == 1
    process.end()


def test_a_copier_prints_the_call_that_it_is_in_when_asked_and_goes_on(tmp_path: Path) -> None:
    given = command(tmp_path, 0.1, 10)
    pipe = subprocess.PIPE
    with subprocess.Popen(given, stdout=pipe, stderr=pipe, text=True) as copier:
        assert copier.stdout is not None
        copier.stdout.readline()
        copier.send_signal(signal.SIGUSR1)
        _, printed = copier.communicate(timeout=60)
    assert copier.returncode == 0
    assert "in send_offsets_to_transaction" in printed
