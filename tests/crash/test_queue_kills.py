"""The kill loop of AMQP in small; `make crash` runs it 100 times."""

import socket
from pathlib import Path

import pytest

from tests.crash.queue_kill_loop import ride
from tests.support.amqp.wire import AmqpWire


def test_what_was_confirmed_is_delivered_and_what_was_settled_stays_away_through_kills(
    tmp_path: Path,
) -> None:
    verdict = ride(tmp_path, kills=2, seed=20261124)
    print(verdict)
    assert verdict.holds(), str(verdict)


def test_a_connection_whose_opening_fails_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = socket.socketpair()
    monkeypatch.setattr(socket, "create_connection", lambda *_: ours)
    monkeypatch.setattr(ours.__class__, "setsockopt", lambda *_: None)
    theirs.close()
    with pytest.raises(OSError, match=r"."):
        AmqpWire(1)
    assert ours.fileno() == -1
