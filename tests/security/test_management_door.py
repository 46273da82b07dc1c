"""Hostile clients of the management API: strangers, guesses, other sites, floods, a stop."""

import contextlib
import http.client
import logging
import socket
import time
from collections.abc import Iterator

import pytest

from headrace.frontends.management import credentials
from headrace.management.requests.rows import ROWS
from headrace.operations.tags import Tag
from headrace.testing import BrokerThread
from tests.support.amqp.management import (
    GUEST,
    SETTINGS,
    ApiClient,
    basic,
    on_frontend,
    port_of,
)
from tests.support.queues.restarts import eventually

PLACES = 64
SECRET = "planted-secret-78"
GUESS = f"GET /api/whoami HTTP/1.1\r\nHost: x\r\nAuthorization: {basic('guest', SECRET)}\r\n\r\n"
DELAY_SECONDS = 0.3
GUARDED = [row for row in ROWS if row.tag is not Tag.ANYONE]


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with BrokerThread(SETTINGS) as running:
        yield running


@pytest.fixture
def client(broker: BrokerThread) -> Iterator[ApiClient]:
    with ApiClient(broker) as made:
        yield made


def test_anyone_may_send_few_requests() -> None:
    open_rows = {(row.method, row.pattern) for row in ROWS} - {
        (row.method, row.pattern) for row in GUARDED
    }
    assert open_rows == {("GET", "/version"), ("POST", "/login"), ("DELETE", "/login")}


def test_the_first_refusal_is_the_answer(client: ApiClient) -> None:
    other = {"Accept": "text/plain"}
    assert client.ask("PUT", "/api/nosuch", None, other, b"x").status == 404
    assert client.ask("PUT", "/api/whoami", None, other).status == 405
    assert client.ask("GET", "/api/whoami", None, other).status == 401
    assert client.ask("GET", "/api/whoami", headers=other).status == 406
    for accepted in ("application/json;q=0.5", "application/*", "text/html, */*;q=0.1"):
        assert client.ask("GET", "/api/whoami", headers={"Accept": accepted}).status == 200
    for refused in ("application/json;q=0", "*/*;q=0.0", "application/bert"):
        assert client.ask("GET", "/api/whoami", headers={"Accept": refused}).status == 406


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("", 401), ("Basic", 400), ("Basic !!!", 400), ("Basic Z3Vlc3Q=", 400),
        ("Basic //8=", 400), ("basic Z3Vlc3Q6Z3Vlc3Q=", 200), ("Bearer Z3Vlc3Q6Z3Vlc3Q=", 401),
        ("Z3Vlc3Q6Z3Vlc3Q=", 401), ("Basic Z3Vlc3Q6Z3Vlc3Q=, Basic Z3Vlc3Q6Z3Vlc3Q=", 400),
    ],
)  # fmt: skip
def test_malformed_credentials_are_refused(header: str, status: int, client: ApiClient) -> None:
    found = client.ask("GET", "/api/whoami", None, {"Authorization": header})
    assert found.status == status
    assert ("www-authenticate" in found.headers) == (not header)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "null", "Host": ""}, 403),
        ({"Origin": "https://127.0.0.1"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Origin": "http://127.0.0.1:{port}"}, 200),
        ({"Origin": "HTTP://API.example", "Host": "api.example:80"}, 200),
        ({"Origin": "https://api.example:443", "Host": "api.example"}, 200),
    ],
)
def test_a_form_of_another_site_changes_nothing(
    headers: dict[str, str], status: int, client: ApiClient, broker: BrokerThread
) -> None:
    port = str(port_of(broker))
    sent = {name: value.replace("{port}", port) for name, value in headers.items()}
    form = b"username=guest&password=guest"
    assert client.ask("POST", "/api/login", None, sent, form).status == status
    assert client.ask("GET", "/api/whoami", headers=sent).status == 200, "a read changes nothing"


def test_the_body_of_a_refused_request_is_not_stored(broker: BrokerThread) -> None:
    refused = (
        ("PUT", "/api/nosuch", 404),
        ("PUT", "/api/whoami", 405),
        ("GET", "/api/whoami", 401),
    )
    for method, path, status in refused:
        with socket.create_connection(("127.0.0.1", port_of(broker)), 20) as link:
            head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\n\r\n"
            link.sendall(head.encode() + bytes(50_000))
            assert int(link.recv(12)[9:]) == status
            assert on_frontend(broker, lambda found: found.endpoint.body_bytes) == 0
    with ApiClient(broker) as client:
        late = client.ask("POST", "/api/login", None, body=bytes(70_000))
        assert (late.status, late.value["error"]) == (413, "payload_too_large")
        with ApiClient(broker) as another:
            assert another.ask("GET", "/api/whoami", body=b"{}").status == 200, "a body of no use"
            assert another.ask("GET", "/api/whoami").status == 200


def test_the_65th_connection_is_refused_and_an_idle_one_gives_way(broker: BrokerThread) -> None:
    address = ("127.0.0.1", port_of(broker))
    links = [socket.create_connection(address, 20) for _ in range(PLACES)]
    for link in links:
        link.sendall(b"GET /api/ver")  # an unfinished request keeps its place
    eventually(lambda: on_frontend(broker, lambda found: found.endpoint.connections) == PLACES)
    with socket.create_connection(address, 20) as refused, contextlib.suppress(ConnectionError):
        refused.sendall(b"GET /api/version HTTP/1.1\r\nHost: x\r\n\r\n")
        assert refused.recv(100) == b""
    with socket.create_connection(("127.0.0.1", broker.port), 20) as kafka:
        kafka.sendall(b"\0\0\0\x0b\0\x12\0\0\0\0\0\1\0\1x")
        assert len(kafka.recv(4)) == 4
    links[0].sendall(b"sion HTTP/1.1\r\nHost: x\r\n\r\n")
    assert links[0].recv(12) == b"HTTP/1.1 200"
    with ApiClient(broker) as client:
        assert client.ask("GET", "/api/whoami").status == 200, "the idle one is closed for it"
    for link in links:
        link.close()


@pytest.fixture
def slow() -> Iterator[BrokerThread]:
    """A broker on which the first failed login waits for `DELAY_SECONDS`, the next ones longer."""
    delay = "connection.failed.authentication.delay"
    settings = {f"{delay}.ms": f"{DELAY_SECONDS * 1000:.0f}", f"{delay}.max.ms": "60000"}
    with BrokerThread(SETTINGS | settings) as running:
        yield running


def test_each_guess_from_an_address_waits_longer(slow: BrokerThread) -> None:
    for user, factor in (("nobody", 1), ("guest", 2)):
        began = time.monotonic()
        with ApiClient(slow) as client:
            assert client.ask("GET", "/api/whoami", (user, SECRET)).status == 401
        assert time.monotonic() - began >= 0.9 * factor * DELAY_SECONDS


def test_guesses_that_do_not_wait_for_the_answer_are_bounded(
    slow: BrokerThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "DELAYED_MAX", 2)

    def failures() -> int:
        found = slow.call(lambda server: dict(server.broker.failed_attempts._failures))
        return int(found.get("127.0.0.1", (0, 0.0))[0])

    with ApiClient(slow) as known:
        assert known.ask("GET", "/api/whoami").status == 200
        for number in (1, 2):
            with socket.create_connection(("127.0.0.1", port_of(slow)), 20) as link:
                link.sendall(GUESS.encode())
                eventually(lambda number=number: failures() == number)  # type: ignore[misc]
        with ApiClient(slow) as client:
            assert client.ask("GET", "/api/whoami", ("guest", SECRET)).status == 503
            assert client.ask("GET", "/api/whoami").status == 503
        assert failures() == 2, "the password was not verified"
        assert known.ask("GET", "/api/whoami").status == 200, "a verified header needs no login"
    with ApiClient(slow) as client:
        eventually(lambda: client.ask("GET", "/api/whoami").status == 200)


def test_a_password_is_in_no_log_line(
    slow: BrokerThread, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with caplog.at_level(logging.DEBUG), ApiClient(slow) as client:
        client.ask("GET", "/api/whoami", ("nobody", SECRET))
        hashing = f"/api/auth/hash_password/{SECRET}"
        assert SECRET not in str(client.ask("GET", hashing).value)
        monkeypatch.setattr("headrace.management.objects.whoami.salted_hash", None)
        assert client.ask("GET", hashing).status == 500
    assert "127.0.0.1 on MANAGEMENT: authentication failed: unknown user: 'nobody'" in caplog.text
    assert "GET /auth/hash_password/{password}: the handler met a bug" in caplog.text
    assert SECRET not in caplog.text


def test_a_stop_ends_requests_that_wait() -> None:
    delay = {"connection.failed.authentication.delay.ms": "9000"}
    with BrokerThread(SETTINGS | delay) as broker:
        address = ("127.0.0.1", port_of(broker))
        links = [socket.create_connection(address, 20) for _ in range(3)]
        begun = (
            "POST /api/login HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\nuser",
            GUESS,
            "GET /api/ver",
        )
        for link, request in zip(links, begun, strict=True):
            link.sendall(request.encode())
        eventually(lambda: on_frontend(broker, lambda found: found.endpoint.body_bytes) == 4)
        eventually(lambda: bool(broker.call(lambda server: len(server.broker.failed_attempts))))
        began = time.monotonic()
    assert time.monotonic() - began < 8
    assert links[0].recv(12) == b"HTTP/1.1 503"
    for link in links[1:]:
        with contextlib.suppress(ConnectionError):
            assert link.recv(100) == b""
    for link in links:
        link.close()
    with contextlib.suppress(OSError):
        http.client.HTTPConnection(*address, timeout=2).connect()
        pytest.fail("the listener is closed")


def test_guest_of_another_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.vhosts.users.logins.is_loopback", lambda host: False)
    with BrokerThread(SETTINGS) as broker, ApiClient(broker) as client:
        assert client.ask("GET", "/api/whoami", GUEST).status == 401
