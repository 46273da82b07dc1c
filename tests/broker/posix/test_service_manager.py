"""What systemd is told, at a NOTIFY_SOCKET of ours: ready, alive, stopping; and our unit file."""

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.posix.service_manager import ServiceManager
from tests.support.processes.process import HEADRACE

UNIT = Path(__file__).parents[3] / "src/headrace/config/samples/headrace.service"
ANALYZE = shutil.which("systemd-analyze")


@pytest.fixture
def told(tmp_path: Path) -> Iterator[socket.socket]:
    """Where the manager listens, at `tmp_path/notify`."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(30)
        yield listening


def forget(told: socket.socket) -> None:
    """Drop what has come until now."""
    time.sleep(0.1)  # a signal's effect may be on its way
    told.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while told.recv(100):
            pass


def manager_at(path: Path, **environ: str) -> ServiceManager:
    return ServiceManager({"NOTIFY_SOCKET": str(path / "notify"), **environ})


def test_the_loop_says_that_it_turns_and_says_nothing_while_it_stands_still(
    tmp_path: Path, told: socket.socket
) -> None:
    async def story() -> None:
        manager = manager_at(tmp_path, WATCHDOG_USEC="100000", WATCHDOG_PID=str(os.getpid()))
        assert manager.alive_seconds == 0.05
        manager.ready("listens on h:1")
        assert told.recv(100) == b"READY=1\nSTATUS=listens on h:1"
        assert told.recv(100) == b"WATCHDOG=1"
        told.settimeout(0.3)  # this blocks the loop
        with pytest.raises(TimeoutError):
            told.recv(100)
        told.setblocking(False)
        heard = 0
        deadline = time.monotonic() + 20
        while heard < 3 and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
            try:
                assert told.recv(100) == b"WATCHDOG=1"
                heard += 1
            except BlockingIOError:
                continue
        assert heard == 3
        manager.stopping()
        await asyncio.sleep(0)
        manager.close()
        rest = []
        while True:
            try:
                rest.append(told.recv(100))
            except BlockingIOError:
                break
        assert rest[-1] == b"STOPPING=1"

    asyncio.run(story())


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"WATCHDOG_USEC": "0"},
        {"WATCHDOG_USEC": "x"},
        {"WATCHDOG_USEC": "9", "WATCHDOG_PID": "1"},
    ],
)
def test_without_a_watchdog_for_this_process_nothing_more_is_said(
    tmp_path: Path, told: socket.socket, environ: dict[str, str]
) -> None:
    manager = manager_at(tmp_path, **environ)
    assert manager.alive_seconds is None
    manager.ready("well")  # on no loop
    manager.close()
    assert told.recv(100).startswith(b"READY=1")


def test_what_the_manager_said_is_not_handed_on_to_processes_of_ours(tmp_path: Path) -> None:
    environ = {"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "1", "WATCHDOG_PID": "1", "HOME": "/"}
    ServiceManager(environ)
    assert environ == {"HOME": "/"}


def test_an_abstract_address_is_understood() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        name = f"headrace-test-{os.getpid()}"
        listening.bind(f"\0{name}")
        listening.settimeout(10)
        manager = ServiceManager({"NOTIFY_SOCKET": f"@{name}"})
        manager.stopping()
        manager.close()
        assert listening.recv(100) == b"STOPPING=1"


def test_a_manager_that_is_gone_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    manager = manager_at(tmp_path)
    with caplog.at_level(logging.WARNING):
        manager.stopping()
        manager.stopping()
    manager.close()
    (record,) = caplog.records
    assert "(no such file or directory); if it waits for this broker" in record.getMessage()


def test_a_broker_tells_when_it_is_ready_that_it_is_alive_and_that_it_stops(
    tmp_path: Path, told: socket.socket
) -> None:
    environ = os.environ | {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "200000"}
    command = [str(HEADRACE), "serve", "--listeners", "PLAINTEXT://127.0.0.1:0"]
    with subprocess.Popen(
        [*command, "--data", str(tmp_path / "data"), "--quiet"], env=environ
    ) as process:
        try:
            assert told.recv(200).startswith(b"READY=1\nSTATUS=listens on PLAINTEXT://127.0.0.1:")
            assert {told.recv(100) for _ in range(3)} == {b"WATCHDOG=1"}
            os.kill(process.pid, signal.SIGSTOP)  # as a loop that stands still
            forget(told)
            told.settimeout(0.6)
            with pytest.raises(TimeoutError):
                told.recv(100)
            told.settimeout(30)
            os.kill(process.pid, signal.SIGCONT)
            assert told.recv(100) == b"WATCHDOG=1"
            process.send_signal(signal.SIGTERM)
            while (word := told.recv(100)) == b"WATCHDOG=1":
                pass
            assert word == b"STOPPING=1"
            assert process.wait(30) == 0
        finally:
            process.kill()


@pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not installed")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    text = UNIT.read_text().replace("/usr/bin/headrace", str(HEADRACE))
    assert str(HEADRACE) in text
    place = tmp_path / "headrace.service"
    place.write_text(text)
    judged = subprocess.run(
        [str(ANALYZE), "verify", "--man=no", str(place)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (judged.returncode, judged.stdout, judged.stderr) == (0, "", "")


def test_the_units_watchdog_waits_far_longer_than_the_loop_needs() -> None:
    settings = dict(
        line.split("=", 1)
        for line in UNIT.read_text().splitlines()
        if "=" in line and line[0] != "#"
    )
    assert settings["Type"] == "notify"
    assert settings["WatchdogSec"] == "60s"
    assert settings["TimeoutStartSec"] == "infinity", "a recovery takes as long as it takes"
    assert settings["KillMode"] == "mixed"
