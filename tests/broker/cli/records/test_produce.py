"""`headrace produce` when its broker goes away, and on a terminal."""

import os
import pty
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from headrace.cli.records.sending import CHUNK_BYTES
from headrace.server.assembly import Server
from headrace.testing import BrokerThread

WAIT_SECONDS_MAX = 60.0


def end_of(server: Server) -> int:
    """How many records the topic holds."""
    found = server.broker.partitions.get(("t", 0))
    return 0 if found is None else found.log.end_offset


@pytest.fixture
def ends() -> Iterator[ExitStack]:
    """What has to end with the test."""
    with ExitStack() as stack:
        yield stack


def test_a_lost_broker_leaves_word_of_what_was_acknowledged(ends: ExitStack) -> None:
    with BrokerThread() as broker:
        command = [sys.executable, "-m", "headrace", "produce", "t", "-b", broker.bootstrap]
        produce = subprocess.Popen(
            [*command, "--request-timeout", "2"],
            stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        ends.callback(produce.kill)
        assert produce.stdin is not None
        produce.stdin.write("one\n")
        produce.stdin.flush()
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while broker.call(end_of) < 1 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert broker.call(end_of) == 1
    _, err = produce.communicate("two\n", timeout=WAIT_SECONDS_MAX)
    assert produce.returncode == 3
    said, why = err.splitlines()
    assert said == "acknowledged: 1 record, last at t-0@0"
    assert why.startswith("headrace: ")


def on_a_terminal(*words: str) -> str:
    """What a `produce t` shows where standard error is a terminal."""
    ours, theirs = pty.openpty()
    seen: list[bytes] = []

    def read() -> None:
        with suppress(OSError):  # the other end is closed
            while data := os.read(ours, 1 << 16):
                seen.append(data)

    reader = threading.Thread(target=read)
    reader.start()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    try:
        subprocess.run(
            [sys.executable, "-m", "headrace", "produce", "t", *words],
            stderr=theirs, env=environment, check=True, timeout=WAIT_SECONDS_MAX,
        )  # fmt: skip
    finally:
        os.close(theirs)
        reader.join(WAIT_SECONDS_MAX)
        os.close(ours)
    return b"".join(seen).decode()


def test_a_bar_is_shown_on_a_terminal_where_the_size_is_known_and_gone_at_the_end(
    tmp_path: Path,
) -> None:
    large, small = tmp_path / "large", tmp_path / "small"
    large.write_bytes(b"line\n" * (CHUNK_BYTES // 5 + 1))
    small.write_bytes(b"line\n")
    with BrokerThread() as broker:
        shown = on_a_terminal(str(large), "-b", broker.bootstrap)
        assert "━" in shown
        assert "\x1b[2K" in shown.split("━")[-1], "the bar is taken away"
        assert shown.split("\x1b[2K")[-1].strip().startswith(f"{CHUNK_BYTES // 5 + 1:,}"[:3])
        said = on_a_terminal(str(small), "-b", broker.bootstrap)
        assert "━" not in said
        assert said.startswith("1 record to t in ")
