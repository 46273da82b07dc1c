"""Connections that come while the broker is busy: the kernel holds them, none is turned away."""

import os
import signal
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from headrace.config.broker import load
from tests.support.processes.process import BrokerProcess

SYSTEM_LIMIT = Path("/proc/sys/net/core/somaxconn")
AT_ONCE = 400


def test_the_system_says_how_many_connections_may_wait() -> None:
    assert load()[0].socket_listen_backlog_size >= int(SYSTEM_LIMIT.read_text())
    assert load("socket.listen.backlog.size=7")[0].socket_listen_backlog_size == 7


@pytest.mark.skipif(
    int(SYSTEM_LIMIT.read_text()) < AT_ONCE, reason="the system lets fewer connections wait"
)
def test_connections_are_made_while_the_broker_does_not_get_to_accept_them(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker, ExitStack() as stack:
        host, _, port = broker.bootstrap.rpartition(":")
        assert broker.process is not None
        os.kill(broker.process.pid, signal.SIGSTOP)
        stack.callback(os.kill, broker.process.pid, signal.SIGCONT)
        for number in range(AT_ONCE):
            # Where no place is left the kernel drops the SYN: the client tries again after 1 s.
            try:
                one = socket.create_connection((host, int(port)), timeout=0.9)
            except TimeoutError:
                pytest.fail(f"connection {number} found no place")
            stack.callback(one.close)
