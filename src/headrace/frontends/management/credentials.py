"""Credentials of management requests: HTTP Basic, against the users and logins of AMQP (ADR 82).

    no header            401, with `www-authenticate`, no body
    not Basic's form     400, no body
    another scheme       401, as a wrong password
    name and password    UserLogins, on a thread --> the user with the tags of this moment
                         |-- wrong: 401, delayed as a failed login of AMQP is
                         '-- right: the connection remembers the header

A connection's memory of a header is valid while the credential that it matched, and the user's
definition, are the present ones: a changed password or permission ends it, and no time limit is
needed. The tags are looked up with each request.

A client that guesses learns of a wrong password only by the delay, so it might leave before and
guess again on another connection: an address with `DELAYED_MAX` delays under way is refused
unverified.
"""

import asyncio
import binascii
import hmac
from base64 import b64decode
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from headrace.frontends.http.router import HttpRequest
from headrace.management.requests.errors import ManagementError, wrong_credentials
from headrace.management.requests.request import RequestUser
from headrace.model.secret import Secret
from headrace.vhosts.users.logins import Credentials, LoginRefused, Peer

if TYPE_CHECKING:
    from headrace.ports.clock import Clock
    from headrace.queues.permissions.definitions import UserDefinition
    from headrace.security.identity import Identity, Principal
    from headrace.vhosts.users.accounts import Accounts
    from headrace.vhosts.users.logins import Proof

DELAYED_MAX = 16
"""Most delays of failed logins from one address at a time."""
_KEPT = "authorization"


class NoCredentials(Exception):
    """A request without usable credentials, which is answered without a body."""

    def __init__(self, status: int) -> None:
        """`status`: 401 without the header, 400 if it has not the form of HTTP Basic."""
        super().__init__(status)
        self.status = status


class _Verified(NamedTuple):
    """A header whose password was right, and what it was compared with."""

    header: str
    user: str
    proof: "Proof | None"
    definition: "UserDefinition | None"


class BasicLogins:
    """The logins of management clients. On the event loop."""

    def __init__(self, accounts: "Accounts", clock: "Clock") -> None:
        self._accounts = accounts
        self._clock = clock
        self._delayed: Counter[str] = Counter()
        """Delays of failed logins under way, by address."""

    async def user_of(self, request: HttpRequest) -> RequestUser:
        """Return the user of a request. Raises NoCredentials and ManagementError."""
        header = request.header(b"authorization")
        before = None if request.kept is None else request.kept.get(_KEPT)
        if isinstance(before, _Verified) and self._is_valid(before, header):
            return self._user(before.user)
        name, password = _basic(header)
        now = self._verified(header, name)
        user = await self.login(request.identity, name, password)
        if request.kept is not None:
            request.kept[_KEPT] = now
        return user

    async def login(self, identity: "Identity", name: str, password: Secret) -> RequestUser:
        """Return the user whose password this is.

        Raises ManagementError: 401 after a delay, 503 while the address has failed too often.
        """
        if self._delayed[identity.host] >= DELAYED_MAX:
            reason = "too many failed logins from this address are under way, try again later"
            raise ManagementError(503, "service_unavailable", reason)
        done: asyncio.Future[Principal | LoginRefused]
        done = asyncio.get_running_loop().create_future()
        self._accounts.logins.authenticate(
            Credentials("PLAIN", name, password),
            Peer(identity.host, identity.listener),
            lambda outcome: None if done.done() else done.set_result(outcome),
        )
        outcome = await done
        if isinstance(outcome, LoginRefused):
            await self._delay(identity.host, outcome.seconds)
            raise wrong_credentials()
        return self._user(name)

    def _is_valid(self, before: _Verified, header: str) -> bool:
        # A proxy sends requests of several users on one connection: time shows no header.
        same = hmac.compare_digest(before.header.encode(), header.encode())
        return same and before == self._verified(before.header, before.user)

    def _user(self, name: str) -> RequestUser:
        return RequestUser(name, self._accounts.tags_of(name))

    def _verified(self, header: str, user: str) -> _Verified:
        """Return what a right password is compared with at this moment."""
        definition = self._accounts.definitions.users.get(user)
        return _Verified(header, user, self._accounts.logins.proof_of(user), definition)

    async def _delay(self, host: str, seconds: float) -> None:
        """Wait; the delay is counted until its end, even if the client leaves before."""
        over = asyncio.get_running_loop().create_future()
        self._delayed[host] += 1
        self._clock.call_later(seconds, partial(self._end_delay, host, over))
        await over

    def _end_delay(self, host: str, over: "asyncio.Future[None]") -> None:
        self._delayed[host] -= 1
        if not self._delayed[host]:
            del self._delayed[host]
        if not over.done():
            over.set_result(None)


def _basic(header: str) -> tuple[str, Secret]:
    """Return name and password of a header. Raises NoCredentials and ManagementError."""
    if not header.strip():
        raise NoCredentials(401)
    scheme, _, encoded = header.strip().partition(" ")
    if scheme.lower() != "basic":
        raise wrong_credentials()
    try:
        name, colon, password = b64decode(encoded.strip(), validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        raise NoCredentials(400) from None
    if not colon:
        raise NoCredentials(400)
    return name, Secret(password)
