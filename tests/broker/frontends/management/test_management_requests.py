"""Requests to a broker's management API: recorded answers, credentials, tags, TLS, imports."""

import hashlib
import http.client
import json
import logging
import ssl
import subprocess
import sys
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace import __version__
from headrace.management.objects import overview, whoami
from headrace.management.requests.request import ManagementReply, ManagementRequest
from headrace.model.errors import ApiError, ErrorCode
from headrace.queues.refusals import RefusalKind, Refused
from headrace.testing import BrokerThread
from headrace.vhosts.users.logins import UserLogins
from tests.outside.amqp.management.compare import differences
from tests.outside.amqp.management.differences import MANAGEMENT, read_explained
from tests.outside.amqp.management.recordings import load
from tests.outside.amqp.management.replay import Replay, over_http
from tests.outside.amqp.management.steps import steps
from tests.support.amqp.management import (
    LISTENERS,
    SETTINGS,
    ApiClient,
    Reply,
    administer,
    make_user,
    port_of,
    set_password,
)
from tests.support.listed_differences import unexplained
from tests.support.queues.restarts import eventually
from tests.support.security.certificates import Authority

SUPER = {"super.users": "User:root"}
REFUSED = {"error": "not_authorized", "reason": "Not_Authorized"}
NOT_MANAGEMENT = {"error": "not_authorised", "reason": "Not management user"}
IMPORTED = """
import http.client, sys
from headrace.testing import BrokerThread
from tests.support.amqp.management import SETTINGS, port_of

def loaded():
    names = ("h11", "headrace.management.requests.rows", "headrace.management.objects.whoami")
    return sorted({*names} & set(sys.modules))

with BrokerThread(SETTINGS) as broker:
    print(loaded())
    client = http.client.HTTPConnection("127.0.0.1", port_of(broker))
    client.request("GET", "/api/version")
    assert client.getresponse().read() == b'"4.3.6"'
    print(loaded())
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with BrokerThread({**SETTINGS, **SUPER}) as running:
        yield running


@pytest.fixture
def client(broker: BrokerThread) -> Iterator[ApiClient]:
    with ApiClient(broker) as made:
        yield made


@pytest.fixture
def verified(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The users whose passwords are verified."""
    names: list[str] = []
    authenticate = UserLogins.authenticate

    def counted(logins: UserLogins, credentials: Any, *rest: Any) -> None:
        names.append(credentials.user)
        authenticate(logins, credentials, *rest)

    monkeypatch.setattr(UserLogins, "authenticate", counted)
    return names


def test_recorded_calls_without_objects_are_answered_as_recorded(broker: BrokerThread) -> None:
    door = [step for step in steps() if step.section == "door"]
    replay = Replay(over_http(f"http://127.0.0.1:{port_of(broker)}"), _NoClients())
    found = differences(load(), {line["id"]: line for line in replay.play(door)}, door)
    left, _ = unexplained(list(found), read_explained(MANAGEMENT))
    assert left == []


class _NoClients:
    def play(self, name: str) -> Any:
        pytest.fail(f"no step of clients is played: {name}")


def test_a_connection_verifies_a_password_once(
    client: ApiClient, broker: BrokerThread, verified: list[str]
) -> None:
    for _ in range(3):
        assert client.ask("GET", "/api/whoami").value["name"] == "guest"
    assert verified == ["guest"]
    with ApiClient(broker) as another:
        assert another.ask("GET", "/api/whoami").status == 200
        assert verified == ["guest", "guest"]


def test_a_verified_password_is_no_other_users_and_no_other_password(
    client: ApiClient, broker: BrokerThread
) -> None:
    ann, bob = make_user(broker, "ann", "management"), make_user(broker, "bob", "monitoring")
    for name, tag in (("ann", "management"), ("bob", "monitoring"), ("ann", "management")):
        found = client.ask("GET", "/api/whoami", (name, name))
        assert found.value == {"is_internal_user": True, "name": name, "tags": [tag]}
    for wrong in ((ann[0], bob[1]), (bob[0], ann[1]), ("ann", ""), ("", "ann")):
        assert client.ask("GET", "/api/whoami", wrong).value == REFUSED
        assert client.ask("GET", "/api/whoami", ann).status == 200


def test_a_changed_password_counts_for_the_next_request(
    client: ApiClient, broker: BrokerThread
) -> None:
    user = make_user(broker, "carol", "management")
    assert client.ask("GET", "/api/whoami", user).status == 200
    set_password(broker, "carol", "new")
    assert client.ask("GET", "/api/whoami", user).value == REFUSED
    assert client.ask("GET", "/api/whoami", ("carol", "new")).status == 200


def test_a_removed_tag_and_a_deleted_user_count_for_the_next_request(
    client: ApiClient, broker: BrokerThread, verified: list[str]
) -> None:
    user = make_user(broker, "dave", "management")
    assert client.ask("GET", "/api/whoami", user).status == 200
    administer(broker, "permission.set", user="dave", vhost="/", configure="", write="", read="")
    assert client.ask("GET", "/api/whoami", user).status == 200
    assert verified == ["dave", "dave"], "verified again, as a permission changed"
    administer(broker, "user.put", name="dave", tags=[])
    assert client.ask("GET", "/api/whoami", user).value == NOT_MANAGEMENT
    administer(broker, "user.delete", name="dave")
    assert client.ask("GET", "/api/whoami", user).value == REFUSED


def test_an_imported_hash_is_a_password_before_and_after_its_migration(
    client: ApiClient, broker: BrokerThread, verified: list[str]
) -> None:
    answer = client.ask("GET", "/api/auth/hash_password/se%20cret")
    hashed = answer.value["ok"]
    administer(
        broker, "user.put", name="erin", tags=["management"],
        hash=hashed, algorithm="rabbit_password_hashing_sha256",
    )  # fmt: skip
    assert answer.headers["cache-control"] == "no-store"
    decoded = b64decode(hashed)
    assert decoded[4:] == hashlib.sha256(decoded[:4] + b"se cret").digest()
    assert client.ask("GET", "/api/whoami", ("erin", "wrong")).value == REFUSED
    assert client.ask("GET", "/api/whoami", ("erin", "se cret")).status == 200

    def migrated() -> bool:
        rows = administer(broker, "user.list")
        return not next(row["hashed"] for row in rows if row["name"] == "erin")

    eventually(migrated)
    assert client.ask("GET", "/api/whoami", ("erin", "se cret")).status == 200
    assert verified[-2:] == ["erin", "erin"], "the credential is another"


def test_a_super_user_is_an_administrator_and_a_kafka_user_is_nobody(
    client: ApiClient, broker: BrokerThread, caplog: pytest.LogCaptureFixture
) -> None:
    set_password(broker, "root", "root")
    set_password(broker, "frank", "frank")
    assert client.ask("GET", "/api/whoami", ("root", "root")).value["tags"] == ["administrator"]
    with caplog.at_level(logging.WARNING, "headrace.security.audit"):
        assert client.ask("GET", "/api/whoami", ("frank", "frank")).value == NOT_MANAGEMENT
    (line,) = [each.message for each in caplog.records if "refused principal" in each.message]
    assert "User:frank" in line
    assert "MANAGEMENT" in line


def test_a_login_answers_the_header_of_later_requests(
    client: ApiClient, broker: BrokerThread
) -> None:
    body = b"username=guest&password=guest"
    answer = client.ask("POST", "/api/login", None, body=body)
    assert answer.value["token"]["value"] == b64encode(b"guest:guest").decode()
    assert answer.headers["cache-control"] == "no-store"
    assert client.ask("DELETE", "/api/login", None).status == 204
    set_password(broker, "grace", "grace")
    untagged = client.ask("POST", "/api/login", None, body=b"username=grace&password=grace")
    assert untagged.value == NOT_MANAGEMENT
    for wrong in (b"", b"username=guest", b"password=guest", b"\xff=%ff", b"username=%ff"):
        assert client.ask("POST", "/api/login", None, body=wrong).value == REFUSED


def test_the_pages_name_the_broker_and_the_paths(client: ApiClient, broker: BrokerThread) -> None:
    front = client.ask("GET", "/", None)
    assert b"broker headrace-0@127.0.0.1" in front.value
    assert b'href="/api/index.html"' in front.value
    index = client.ask("GET", "/api/index.html", None).value
    assert b"<td>GET</td><td>/api/auth/hash_password/{password}</td><td>administrator" in index
    assert client.ask("HEAD", "/", None).value == b""
    assert client.ask("POST", "/", None).status == 405
    found = client.ask("GET", "/api/overview/?columns=node,product_version,nosuch").value
    assert found == {"node": "headrace-0@127.0.0.1", "product_version": __version__}


def test_rows_are_an_array_and_errors_of_operations_are_refusals(
    client: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def rows(*found: object) -> AsyncIterator[object]:
        for each in found:
            yield each

    def answer(made: Callable[[], ManagementReply]) -> Reply:
        async def handler(_: object) -> ManagementReply:
            return made()

        monkeypatch.setattr(whoami, "whoami", handler)
        return client.ask("GET", "/api/whoami")

    def fail(error: Exception) -> ManagementReply:
        raise error

    many = [{"name": "é" * 100, "number": number} for number in range(2000)]
    assert answer(lambda: ManagementReply(200, rows=rows())).value == []
    found = answer(lambda: ManagementReply(200, rows=rows(*many)))
    assert found.value == many
    assert found.headers["transfer-encoding"] == "chunked"
    refused = answer(lambda: fail(Refused(RefusalKind.NOT_FOUND, "queue", "no queue")))
    assert (refused.status, refused.value["reason"]) == (404, "no queue")
    late = answer(lambda: fail(ApiError(ErrorCode.REQUEST_TIMED_OUT, "too late")))
    assert (late.status, late.value["reason"]) == (503, "too late")


def test_a_request_that_needs_no_credentials_has_no_user(
    client: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def handler(request: ManagementRequest) -> ManagementReply:
        return ManagementReply(200, [*request.user, str(request.caller.identity.principal)])

    monkeypatch.setattr(overview, "version", handler)
    assert client.ask("GET", "/api/version").value == ["", [], "User:ANONYMOUS"]


def test_paths_and_queries_that_are_not_utf8_are_refused(client: ApiClient) -> None:
    for path in ("/api/auth/hash_password/%ff", "/api/whoami?a=%ff", f"/api/whoami?{'a&' * 101}"):
        assert client.ask("GET", path).value["error"] == "bad_request"
    for path in ("/ap", "/apiwhoami", "/whoami", "//api/whoami", "/api//whoami", "/index.html"):
        assert client.ask("GET", path, None).status == 404


def test_management_is_served_over_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    settings = {
        **SETTINGS,
        "listeners": LISTENERS.replace("MANAGEMENT", "MANAGEMENT_SSL"),
        "listener.name.management_ssl.ssl.keystore.location": str(authority.sign().both),
    }
    with BrokerThread(settings) as broker:
        port = port_of(broker, "MANAGEMENT_SSL")
        trusting = ssl.create_default_context(cafile=str(authority.certificate))
        client = http.client.HTTPSConnection("localhost", port, timeout=20, context=trusting)
        client.request("GET", "/api/version")
        assert json.loads(client.getresponse().read()) == "4.3.6"
        client.close()


def test_the_api_is_imported_with_its_first_request() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    before, after = done.stdout.splitlines()
    assert before == "[]"
    assert after == "['h11', 'headrace.management.requests.rows']"
