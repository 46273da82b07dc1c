"""Logins of AMQP clients: users with SCRAM credentials or imported RabbitMQ hashes, and guest.

Every password check costs the same work, whether the user exists or not. Each failure is delayed as
a Kafka client's is (`security.sasl.failed_attempts`). An imported RabbitMQ hash is valid until its
user has logged in once, and is then replaced by SCRAM credentials.
"""

import hmac
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from headrace.model.loopback import is_loopback
from headrace.model.secret import Secret
from headrace.queues.permissions.definitions import GUEST, Definitions
from headrace.security.identity import USER, Principal
from headrace.security.sasl.sasl import Mechanism
from headrace.security.sasl.scram import ITERATIONS_MIN, Credential, make_credential
from headrace.vhosts.users.rabbit_hash import is_password

if TYPE_CHECKING:
    from headrace.ports.disk import Disk
    from headrace.security.sasl.users import Users

log = logging.getLogger(__name__)

Adopt = Callable[[str, Secret], None]
"""Stores SCRAM credentials of a user whose password matched an imported RabbitMQ hash."""
Failed = Callable[[str], float]
"""Counts a failed login from an address; returns the seconds to delay the answer."""
_NOBODYS = Credential(b"\0" * 24, b"\0" * 32, b"\0" * 32, ITERATIONS_MIN)
"""Credential that passwords of users without SCRAM credentials are checked against.

It makes the work of a check equal for all users.
"""

_FAR_GUEST = "user 'guest' can only connect via localhost"
_NO_GUEST = (
    "there is no user 'guest'. amqp.guest=true lets it in from this machine, for trying out; else"
    " make a user: headrace amqp user create"
)


class Peer(NamedTuple):
    """The other end of a connection, as its socket reports it."""

    host: str
    listener: str
    certificate_name: str | None = None
    """Name in the client's verified certificate; None: it presented none."""
    port: int = -1


class Credentials(NamedTuple):
    """A client's credentials; `password` is None if a certificate proved the user."""

    mechanism: str
    user: str
    password: Secret | None


class LoginRefused(NamedTuple):
    """A refused login. The reason is for the log; the client is only referred to it."""

    reason: str
    seconds: float = 0.0
    """Seconds by which the answer is delayed."""


LoginDone = Callable[[Principal | LoginRefused], None]


class Proof(NamedTuple):
    """The credential or hash by which a password is checked."""

    mechanism: Mechanism
    credential: Credential
    rabbit_hash: str = ""
    is_guest: bool = False


class UserLogins:
    """Password and certificate logins of the broker's users. Implements `queue_broker.Logins`."""

    def __init__(
        self,
        users: "Users",
        definitions: Definitions,
        disk: "Disk",
        failed: Failed,
        adopt: Adopt,
        is_super: Callable[[Principal], bool] = lambda principal: False,
    ) -> None:
        """Create the logins of a broker.

        `is_super`: super users may log in by certificate without any stored definition.
        """
        self._users = users
        self._definitions = definitions
        self._disk = disk
        self._failed = failed
        self._adopt = adopt
        self._is_super = is_super

    def authenticate(self, credentials: Credentials, peer: Peer, done: LoginDone) -> None:
        """Call `done` with the principal or the refusal; a password is checked on a thread.

        A check takes some milliseconds. `done` runs on the deciding thread.
        """
        user, password = credentials.user, credentials.password
        if password is None:
            done(self._by_certificate(user, peer))
            return
        proof = self.proof_of(user)

        def checked(outcome: bool | BaseException) -> None:
            if outcome is not True:
                reason = "unknown user" if proof is None else "wrong password"
                hint = _NO_GUEST if proof is None and user == GUEST else ""
                done(self._refused(reason, user, peer, hint))
            elif _is_far_guest(user, peer):
                done(self._refused(_FAR_GUEST, user, peer))
            else:
                if proof is not None and proof.rabbit_hash:
                    self._adopt(user, password)
                done(Principal(USER, user))

        self._disk.run(lambda: _is_right(proof, password), checked)

    def _by_certificate(self, user: str, peer: Peer) -> Principal | LoginRefused:
        """Return the principal of a verified certificate's name, if that user is known."""
        principal = Principal(USER, user)
        kept = user in self._definitions.users or bool(self._users.of(user))
        if not kept and not self._is_super(principal):
            return self._refused("unknown user", user, peer)
        if _is_far_guest(user, peer):
            return self._refused(_FAR_GUEST, user, peer)
        return principal

    def proof_of(self, user: str) -> Proof | None:
        """Return the proof for a user's password; None: no such user has a password.

        It changes with the password.
        """
        known = self._users.of(user)
        if known:
            mechanism = min(known)  # SHA-256 first, as for unknown users
            return Proof(mechanism, known[mechanism])
        kept = self._definitions.users.get(user)
        if kept is not None and kept.password_hash:
            return Proof(Mechanism.SCRAM_SHA_256, _NOBODYS, rabbit_hash=kept.password_hash)
        if user == GUEST and self._definitions.guest:
            return Proof(Mechanism.SCRAM_SHA_256, _NOBODYS, is_guest=True)
        return None

    def _refused(self, reason: str, user: str, peer: Peer, hint: str = "") -> LoginRefused:
        """Log a failed login and return the refusal; `hint` is logged only."""
        text = f"{reason}: {user[:100]!r}"
        line = f"{text}; {hint}" if hint else text
        log.warning("%s on %s: authentication failed: %s", peer.host, peer.listener, line)
        return LoginRefused(text, self._failed(peer.host))


def _is_right(proof: Proof | None, password: Secret) -> bool:
    """Tell whether a password is right, with equal work for all users. Runs on a thread."""
    mechanism, credential, rabbit_hash, is_guest = proof or Proof(Mechanism.SCRAM_SHA_256, _NOBODYS)
    made = make_credential(mechanism, password, credential.salt, credential.iterations)
    right = hmac.compare_digest(made.stored_key, credential.stored_key)
    if rabbit_hash:
        return is_password(rabbit_hash, password)
    if is_guest:
        return hmac.compare_digest(password.reveal().encode(), GUEST.encode())
    return right and proof is not None


def _is_far_guest(user: str, peer: Peer) -> bool:
    """Tell whether the user is guest and logs in from another machine, which is refused."""
    return user == GUEST and not is_loopback(peer.host)
