"""Who a client of AMQP is: users with SCRAM's credentials, and RabbitMQ's guest where allowed."""

import hmac
from ipaddress import ip_address
from typing import TYPE_CHECKING

from headrace.frontends.amqp.ports import Credentials, LoginDone, LoginRefused, Peer
from headrace.model.secret import Secret
from headrace.security.identity import USER, Principal
from headrace.security.scram import Credential, make_credential

if TYPE_CHECKING:
    from headrace.ports.disk import Disk
    from headrace.security.sasl import Mechanism
    from headrace.security.users import Users

GUEST = "guest"
"""The name and the password of RabbitMQ's first user."""


class UserLogins:
    """Checks names and passwords against the broker's users. `queue_broker.Logins`."""

    def __init__(self, users: "Users", disk: "Disk", *, guest: bool) -> None:
        """`guest`: whether guest with the password guest is let in, from this machine alone."""
        self._users = users
        self._disk = disk
        self._guest = guest

    def authenticate(self, credentials: Credentials, peer: Peer, done: LoginDone) -> None:
        """Tell `done` once who it is; a password takes some ms of work, done on a thread."""
        user, password = credentials.user, credentials.password
        known = self._users.of(user)
        if password is None:
            done(Principal(USER, user))
        elif known:
            mechanism, credential = next(iter(known.items()))
            self._check(mechanism, credential, user, password, done)
        elif user == GUEST and self._guest:
            done(_guest(password, peer))
        else:
            done(LoginRefused(f"unknown user: {user[:100]!r}"))

    def _check(
        self,
        mechanism: "Mechanism",
        credential: Credential,
        user: str,
        password: Secret,
        done: LoginDone,
    ) -> None:
        def right() -> bool:
            made = make_credential(mechanism, password, credential.salt, credential.iterations)
            return hmac.compare_digest(made.stored_key, credential.stored_key)

        def checked(outcome: bool | BaseException) -> None:
            if outcome is True:
                done(Principal(USER, user))
            else:
                done(LoginRefused(f"wrong password: {user[:100]!r}"))

        self._disk.run(right, checked)


def _guest(password: Secret, peer: Peer) -> Principal | LoginRefused:
    if not _is_loopback(peer.host):
        return LoginRefused("user 'guest' can only connect via localhost")
    if not hmac.compare_digest(password.reveal().encode(), GUEST.encode()):
        return LoginRefused("wrong password: 'guest'")
    return Principal(USER, GUEST)


def _is_loopback(host: str) -> bool:
    try:
        address = ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
