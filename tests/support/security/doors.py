"""One broker with a listener of every kind, and somebody of each role who comes through each.

A role is what may be done by whom: which rules there are of the principal that a door makes of its
client. On PLAINTEXT nobody has a name, so each role is played by User:ANONYMOUS there.
"""

import contextlib
import socket
import ssl
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple, Self

from headrace.config.authentication.jaas import PLAIN_MODULE
from headrace.frontends.kafka.authentication.authorisation import CLUSTER_ACTION, Ask
from headrace.security.acl import ANY_NAME, AclEntry, Permission
from headrace.security.acl_rules import AclRules
from headrace.security.authorizer import CLUSTER_NAME, Operation, Resource, ResourceType
from headrace.security.identity import ANONYMOUS, Principal
from headrace.security.rules import RuleAuthorizer
from headrace.server.assembly import Server
from headrace.testing.broker import BrokerThread
from headrace.wire.kafka.api import ApiKey
from tests.support.security.authorisation_values import FEW
from tests.support.security.certificates import Authority, Certificate
from tests.support.security.sasl_kit import WAIT_SECONDS, Knocking, client_of

KINDS = tuple(kind for kind in ResourceType if kind > ResourceType.ANY)
PASSWORD = "let-me-in"


class Door(Enum):
    """A kind of listener that speaks Kafka's protocol."""

    PLAINTEXT = "PLAINTEXT"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"
    MUTUAL_TLS = "SSL"

    @property
    def authenticates(self) -> bool:
        """Whether requests say who somebody is."""
        return self in (Door.SASL_PLAINTEXT, Door.SASL_SSL)

    @property
    def encrypts(self) -> bool:
        """Whether it speaks TLS."""
        return self in (Door.SASL_SSL, Door.MUTUAL_TLS)


class Role(Enum):
    """What its player may do."""

    UNRULED = "no rules"
    RULED = "rules"
    DENIED = "denied"
    SUPER = "super user"
    BROKER = "broker"

    @property
    def user(self) -> str:
        """The player's name where he has one."""
        return self.name.lower()


def principal(door: Door, role: Role) -> Principal:
    """Return who the player of a role is behind a door."""
    return ANONYMOUS if door is Door.PLAINTEXT else Principal("User", role.user)


class Way(NamedTuple):
    """One player behind one door."""

    door: Door
    role: Role


WAYS = tuple(Way(door, role) for door in Door for role in Role)


class House:
    """The broker, its doors' certificates, and one connection for each way in."""

    def __init__(self, directory: Path, **settings: str) -> None:
        self._authority = Authority(directory)
        server = self._authority.sign()
        self._clients: dict[Role, Certificate] = {}
        users = " ".join(f'user_{role.user}="{PASSWORD}"' for role in Role)
        given = {name.replace("_", "."): text for name, text in {**FEW, **settings}.items()}
        self.broker = BrokerThread(
            {
                "listeners": ",".join(f"{door.value}://127.0.0.1:0" for door in Door),
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.sasl_plaintext.plain.sasl.jaas.config": _jaas(users),
                "listener.name.sasl_ssl.plain.sasl.jaas.config": _jaas(users),
                "ssl.keystore.location": str(server.both),
                "listener.name.ssl.ssl.truststore.location": str(self._authority.certificate),
                "listener.name.ssl.ssl.client.auth": "required",
                "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/",
                "auto.create.topics.enable": "true",
                "delegation.token.secret.key": "kept-by-the-broker",
                # All come from one address, many with something wrong.
                "connection.failed.authentication.delay.max.ms": "100",
                "super.users": f"User:{Role.SUPER.user}",
                **given,
            },
            memory=True,
        )
        self._open: dict[Way, Knocking] = {}

    def __enter__(self) -> Self:
        self.broker.start()
        return self

    def __exit__(self, *_: object) -> None:
        for connection in self._open.values():
            connection.close()
        self.broker.stop()

    def port(self, door: Door) -> int:
        """Return where a door is."""
        return self.broker.server.listeners[list(Door).index(door)].port

    def context(self, role: Role | None) -> ssl.SSLContext:
        """Return what trusts the broker, with the certificate of who plays the role."""
        context = ssl.create_default_context(cafile=str(self._authority.certificate))
        if role is not None:
            if role not in self._clients:
                self._clients[role] = self._authority.sign(role.user, f"/CN={role.user}")
            context.load_cert_chain(self._clients[role].both)
        return context

    def stranger(self, door: Door) -> Knocking:
        """Connect without a name. OSError where TLS refuses who has no certificate."""
        plain = socket.create_connection(("127.0.0.1", self.port(door)), WAIT_SECONDS)
        if not door.encrypts:
            return Knocking.over(plain)
        try:
            return Knocking.over(self.context(None).wrap_socket(plain, server_hostname="localhost"))
        except OSError:
            plain.close()
            raise

    def come(self, way: Way) -> Knocking:
        """Connect as who plays the role, and authenticate."""
        plain = socket.create_connection(("127.0.0.1", self.port(way.door)), WAIT_SECONDS)
        connected = plain
        if way.door.encrypts:
            role = way.role if way.door is Door.MUTUAL_TLS else None
            connected = self.context(role).wrap_socket(plain, server_hostname="localhost")
        connection = Knocking.over(connected)
        if way.door.authenticates:
            connection.handshake("PLAIN")
            token = client_of("PLAIN", way.role.user, PASSWORD).first()
            assert connection.token(token).error_code == 0
        return connection

    def ask(self, way: Way, key: ApiKey, version: int, values: Mapping[str, Any]) -> Any:
        """Ask through the way's own connection; None where it was closed instead."""
        if way not in self._open:
            self._open[way] = self.come(way)
        answer = self._open[way].ask_values(key, version, values)
        if answer is None:
            self._open.pop(way).close()
        return answer

    def rule(self, allowed: Iterable[Ask], denied: Iterable[Ask], role: Role) -> None:
        """Give the role's players what it is: `allowed` to RULED, all but `denied` to DENIED."""
        authorizer = authorizer_of(role, list(allowed), list(denied))

        def put(server: Server) -> None:
            server.broker.authorizer = authorizer

        self.broker.call(put)


def authorizer_of(role: Role, allowed: list[Ask], denied: list[Ask]) -> RuleAuthorizer:
    """Return one whose rules are those of the role's players, whichever door they come by.

    Others, and the players from another host, may do everything.
    """
    rules = AclRules()
    players = {str(principal(door, role)) for door in Door}
    for kind in KINDS:
        entries = {_allow("User:another", Operation.ALL)}
        for player in players:
            entries.add(_allow(player, Operation.ALL)._replace(host="10.9.9.9"))
            if role is Role.RULED:
                entries |= {_allow(player, ask.operation) for ask in allowed if ask.kind is kind}
            if role is Role.DENIED:
                entries.add(_allow(player, Operation.ALL))
                entries |= {_deny(player, ask.operation) for ask in denied if ask.kind is kind}
            if role is Role.SUPER:
                entries.add(_deny(player, Operation.ALL))
            if role is Role.BROKER and kind is CLUSTER_ACTION.kind:
                entries.add(_allow(player, CLUSTER_ACTION.operation))
        for name in {ANY_NAME, CLUSTER_NAME} if kind is ResourceType.CLUSTER else {ANY_NAME}:
            rules.put(Resource(kind, name), entries)
    # Who has a name and is a super user is always one: he makes what requests are about.
    supers = {principal(door, Role.SUPER) for door in Door}
    if role is not Role.SUPER:
        supers.remove(ANONYMOUS)
    return RuleAuthorizer([_Renewed(rules)], super_users=supers)


class _Renewed:
    """Rules whose version is none that was there before: a connection keeps no older answer."""

    _count = 0

    def __init__(self, rules: AclRules) -> None:
        type(self)._count += 1_000_000
        self._rules, self._base = rules, self._count
        self.ruling, self.reach = rules.ruling, rules.reach

    @property
    def version(self) -> int:
        """Grows from one set of rules to the next."""
        return self._base + self._rules.version


def _allow(player: str, operation: Operation) -> AclEntry:
    return AclEntry(player, "127.0.0.1", operation, Permission.ALLOW)


def _deny(player: str, operation: Operation) -> AclEntry:
    return AclEntry(player, "127.0.0.1", operation, Permission.DENY)


def _jaas(users: str) -> str:
    return f"{PLAIN_MODULE} required {users};"


def raw(port: int, data: bytes, seconds: float = WAIT_SECONDS) -> bytes:
    """Send bytes as they are, and return all that comes until the end."""
    with socket.create_connection(("127.0.0.1", port), seconds) as plain:
        found = b""
        with contextlib.suppress(OSError):
            plain.sendall(data)
            plain.shutdown(socket.SHUT_WR)
            while piece := plain.recv(1 << 16):
                found += piece
        return found
