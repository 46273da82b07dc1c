"""A request of the management API and its reply, independent of HTTP; JSON bodies."""

import json
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from headrace.management.requests.errors import (
    DOUBLY_ENCODED,
    ManagementError,
    bad_request,
    keys_missing,
    not_json,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.model.secret import Secret
    from headrace.operations.permissions import Caller
    from headrace.operations.registry import Operations
    from headrace.vhosts.users.accounts import Accounts


class RequestUser(NamedTuple):
    """The user of a request; without credentials no name and no tags."""

    name: str = ""
    tags: tuple[str, ...] = ()


class Services(Protocol):
    """The broker behind the requests, its operations and users, and their logins."""

    @property
    def broker(self) -> "Broker":
        """The broker that answers."""

    @property
    def operations(self) -> "Operations":
        """The operations on objects, which check permissions and write the audit log."""

    @property
    def accounts(self) -> "Accounts":
        """The broker's users and virtual hosts."""

    async def login(self, caller: "Caller", user: str, password: "Secret") -> RequestUser:
        """Return the user whose password this is. Raises ManagementError."""


class ManagementRequest(NamedTuple):
    """A request whose path has a row in the table."""

    method: str
    values: Mapping[str, str]
    """The decoded values of the path pattern."""
    query: Mapping[str, str]
    body: bytes | bytearray
    """The whole body, b"" without one."""
    caller: "Caller"
    user: RequestUser
    services: Services


class ManagementReply(NamedTuple):
    """A reply: a JSON value, rows of a list that are made while they are sent, or neither."""

    status: int
    value: object = None
    """The JSON value; None: an empty body."""
    rows: AsyncIterator[object] | None = None
    """The rows of a JSON array in place of `value`."""
    headers: tuple[tuple[str, str], ...] = ()


def json_object(body: bytes | bytearray) -> dict[str, Any]:
    """Return the JSON object that a body is; an empty body is an empty object.

    Raises ManagementError with RabbitMQ's texts: `not_json`, a string that was encoded twice.
    """
    if not body:
        return {}
    try:
        value = json.loads(body.decode(), parse_constant=_refuse_constant)
        if b"\\u" in body:
            json.dumps(value, ensure_ascii=False).encode()  # half a character is no Unicode
    except (ValueError, RecursionError):
        raise not_json() from None
    if isinstance(value, str):
        raise bad_request(DOUBLY_ENCODED)
    if not isinstance(value, dict):
        raise not_json()
    return value


def required(document: Mapping[str, Any], *keys: str) -> list[Any]:
    """Return the values of `keys`. Raises ManagementError that names all missing ones."""
    missing = [key for key in keys if key not in document]
    if missing:
        raise keys_missing(missing)
    return [document[key] for key in keys]


def boolean(document: Mapping[str, Any], key: str, otherwise: bool) -> bool:
    """Return a boolean of a JSON object, which may be a string. Raises ManagementError."""
    value = document.get(key, otherwise)
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value in {"true", "false"}:
        return value == "true"
    raise _not_boolean(value)


def _not_boolean(value: object) -> ManagementError:
    shown = value if isinstance(value, str) else json.dumps(value)
    return bad_request(["not_boolean", shown])


def _refuse_constant(name: str) -> object:
    raise ValueError(name)  # NaN and Infinity are Python's, not JSON's
