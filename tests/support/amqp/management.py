"""A broker with a management listener, its users, and clients of the API."""

import http.client
import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self

from headrace.amqp_commands.amqp.ask import ask_amqp
from headrace.client.admin.users import set_credential
from headrace.client.sync import connect, run
from headrace.frontends.management.frontend import ManagementFrontend
from headrace.model.secret import Secret
from headrace.security.sasl.sasl import Mechanism
from headrace.testing import BrokerThread

LISTENERS = "PLAINTEXT://127.0.0.1:0,MANAGEMENT://127.0.0.1:0,AMQP://127.0.0.1:0"
"""The management listener is before the one that it needs."""
SETTINGS = {
    "listeners": LISTENERS,
    "amqp.guest": "true",
    "connection.failed.authentication.delay.ms": "1",
    "connection.failed.authentication.delay.max.ms": "1",
}
"""Settings of a broker on which nothing waits for a failed login."""
GUEST = ("guest", "guest")


class Reply(NamedTuple):
    """A reply; header names in small letters; the JSON value, or another body as bytes."""

    status: int
    headers: Mapping[str, str]
    value: Any


class ApiClient:
    """A client with one connection to a broker's management API."""

    def __init__(self, broker: BrokerThread, *, seconds: float = 20) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port_of(broker), timeout=seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self.connection.close()

    def ask(
        self,
        method: str,
        path: str,
        user: tuple[str, str] | None = GUEST,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Reply:
        """Send a request with the user's name and password, and return the reply."""
        sent = {} if user is None else {"Authorization": basic(*user)}
        self.connection.request(method, path, body, {**sent, **(headers or {})})
        answer = self.connection.getresponse()
        received = answer.read()
        found = {name.lower(): value for name, value in answer.getheaders()}
        is_json = found.get("content-type") == "application/json" and received
        return Reply(answer.status, found, json.loads(received) if is_json else received)


def basic(user: str, password: str) -> str:
    """Return the value of a header `Authorization`."""
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


def port_of(broker: BrokerThread, listener: str = "MANAGEMENT") -> int:
    """Return the port of a listener."""
    return broker.call(
        lambda server: next(each.port for each in server.listeners if each.name == listener)
    )


def on_frontend(broker: BrokerThread, look: Callable[[ManagementFrontend], Any]) -> Any:
    """Return what `look` finds on the event loop."""
    return broker.call(
        lambda server: look(
            next(it for it in server.frontends._others if isinstance(it, ManagementFrontend))
        )
    )


def administer(broker: BrokerThread, operation: str, **question: Any) -> Any:
    """Run an operation of administrators."""
    with connect(broker.bootstrap) as client:
        return run(ask_amqp(client, operation, **question))


def set_password(broker: BrokerThread, name: str, password: str) -> None:
    """Set a user's password."""
    with connect(broker.bootstrap) as client:
        run(set_credential(client, name, Mechanism.SCRAM_SHA_256, Secret(password), 4096))


def make_user(broker: BrokerThread, name: str, *tags: str) -> tuple[str, str]:
    """Create a user whose password is the name; return both."""
    set_password(broker, name, name)
    administer(broker, "user.put", name=name, tags=list(tags))
    return name, name


def make_vhost(broker: BrokerThread, name: str, *users: str, pattern: str = ".*") -> None:
    """Create a virtual host in which users may do everything to names that fit a pattern."""
    administer(broker, "vhost.create", name=name)
    for user in users:
        question = dict.fromkeys(("configure", "write", "read"), pattern)
        administer(broker, "permission.set", user=user, vhost=name, **question)
