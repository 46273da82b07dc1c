"""Guessing passwords over AMQP: how long it takes, and who is kept out by it."""

import logging
import socket
import time
from collections.abc import Iterator

import pytest

from headrace.testing import BrokerThread
from headrace.wire.amqp.control_methods import ConnectionStartOk
from headrace.wire.amqp.frames import PROTOCOL_HEADER
from headrace.wire.amqp.methods import encode_method
from tests.support.amqp.kit import ALL_CAPABILITIES

DELAY_SECONDS = 0.3
SECRET = "planted-secret-77"


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,AMQP://127.0.0.1:0",
        "connection.failed.authentication.delay.ms": f"{DELAY_SECONDS * 1000:.0f}",
    }
    with BrokerThread(settings) as running:
        yield running


def guess(broker: BrokerThread, user: str, password: str = SECRET) -> socket.socket:
    """Send a name and a password, and wait for nothing."""
    port = broker.call(lambda server: server.listeners[1].port)
    connection = socket.create_connection(("127.0.0.1", port), timeout=20)
    connection.sendall(PROTOCOL_HEADER)
    assert connection.recv(65_536)
    response = f"\0{user}\0{password}".encode()
    start_ok = ConnectionStartOk(ALL_CAPABILITIES, "PLAIN", response, "en_US")
    connection.sendall(encode_method(0, start_ok))
    return connection


def seconds_to_answer(connection: socket.socket) -> float:
    began = time.monotonic()
    with connection:
        assert b"ACCESS_REFUSED - Login was refused" in connection.recv(65_536)
        return time.monotonic() - began


def test_each_guess_from_an_address_waits_longer_known_or_not(broker: BrokerThread) -> None:
    first = seconds_to_answer(guess(broker, "nobody"))
    second = seconds_to_answer(guess(broker, "guest"))
    third = seconds_to_answer(guess(broker, "nobody"))
    assert first >= 0.9 * DELAY_SECONDS
    assert second >= 1.8 * DELAY_SECONDS
    assert third >= 3.6 * DELAY_SECONDS


def test_who_does_not_wait_for_the_answer_keeps_his_place_all_the_same(
    broker: BrokerThread,
) -> None:
    def taken() -> int:
        count: int = broker.call(
            lambda server: server.table.places.strangers + server.table.places._kept_in_all
        )
        return count

    def failures() -> int:
        found = broker.call(lambda server: dict(server.broker.failed_attempts._failures))
        return int(found.get("127.0.0.1", (0, 0.0))[0])

    for number in (1, 2, 3):
        connection = guess(broker, "nobody")
        deadline = time.monotonic() + 20
        while failures() < number:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        connection.close()
    # The third one's delay is four times the first one's: it goes on.
    assert taken() >= 1


def test_a_guess_is_told_in_the_log_without_its_password(
    broker: BrokerThread, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        seconds_to_answer(guess(broker, "nobody"))
    assert "127.0.0.1 on AMQP: authentication failed: unknown user: 'nobody'" in caplog.text
    assert SECRET not in caplog.text
