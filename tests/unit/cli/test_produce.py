"""`headrace produce` when its broker goes away."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

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
