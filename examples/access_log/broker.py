"""A broker of the demo's own: `headrace serve` in a process, on a free loopback port."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

START_SECONDS_MAX = 30.0
STOP_SECONDS_MAX = 30.0


class BrokerFailed(Exception):
    """The broker did not come up, or ended by itself."""


@contextmanager
def running_broker(folder: Path) -> Iterator[str]:
    """Run a broker whose data lies in `folder`; gives its bootstrap address, stops it at the end.

    The data stays, so `headrace serve FOLDER/server.properties` serves it again.
    """
    folder.mkdir(parents=True)
    port = _free_port()
    properties = folder / "server.properties"
    properties.write_text(f"listeners=PLAINTEXT://127.0.0.1:{port}\nlog.dirs={folder / 'log'}\n")
    output = folder / "output.log"
    command = [str(Path(sys.executable).with_name("headrace")), "serve", str(properties)]
    with output.open("wb") as log:
        # A session of its own: Ctrl-C in the terminal is for the demo, which then stops the broker.
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        _wait_until_open(process, port, output)
        yield f"127.0.0.1:{port}"
        if process.poll() is not None:
            raise BrokerFailed(f"the broker ended by itself; what it said is in {output}")
    finally:
        _stop(process)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_open(process: subprocess.Popen[bytes], port: int, output: Path) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    said = output.read_text(errors="replace").strip()[-2000:]
    raise BrokerFailed(f"the broker did not start:\n{said}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()
