"""RabbitMQ's permissions: configure, write and read by regular expressions on names.

Permissions of each method (RabbitMQ's table of access control):

| method | configure | write | read |
|---|---|---|---|
| exchange.declare, exchange.delete | the exchange | | |
| exchange.declare with an alternate exchange | the exchange | the alternate | the exchange |
| queue.declare, queue.delete | the queue | | |
| queue.declare with a dead letter exchange | the queue | the dead letter exchange | the queue |
| exchange.bind, exchange.unbind | | the destination | the source |
| queue.bind, queue.unbind | | the queue | the exchange |
| basic.publish | | the exchange | |
| basic.get, basic.consume, queue.purge | | | the queue |

`VirtualHost` checks declarations, deletions and bindings, in RabbitMQ's order among its other
checks; `NEEDED` has the rest. A passive declaration needs no permission.

Expressions are RE2's, which match in time linear to the name. Syntax that only RabbitMQ's engine
has (backreferences, lookaround) is refused when permissions are set. In topic permissions
`{username}` and `{vhost}` stand for those names literally; RabbitMQ would read them as expressions.

Frontends ask the `Authorizer` in `security`, for which permissions are rules among others
(`permission_rules`). Topic permissions, which concern no resource of the broker, are checked here.
"""

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple, Protocol

from headrace.model import regex
from headrace.model.errors import ApiError, HeadraceError
from headrace.queues.refusals import EXCHANGE, QUEUE, Refused, refused, resource_text

DEFAULT_EXCHANGE_NAME = "amq.default"
"""The name of the default exchange in permissions."""
ANSWERS_KEPT_MAX = 16_384
_EVERYTHING, _NOTHING = ".*", "^$"


class Permission(Enum):
    """The kinds of access to a queue, an exchange or a Kafka topic."""

    CONFIGURE = "configure"
    WRITE = "write"
    READ = "read"


NEEDED: dict[str, tuple[Permission, str]] = {
    "basic.publish": (Permission.WRITE, EXCHANGE),
    "basic.get": (Permission.READ, QUEUE),
    "basic.consume": (Permission.READ, QUEUE),
    "queue.purge": (Permission.READ, QUEUE),
}
"""The permission that a method needs, and on which kind of resource."""


class InvalidPermission(HeadraceError):
    """Permissions that cannot be set, as an expression is invalid."""


class Grant(NamedTuple):
    """A user's permissions in a vhost: an expression for each; empty: no name matches."""

    configure: str
    write: str
    read: str


class TopicGrant(NamedTuple):
    """Expressions for routing keys that a user may publish and bind by at a topic exchange."""

    write: str
    read: str


class Access(Protocol):
    """The permissions of one user in one vhost, checked for each AMQP operation."""

    def check(self, permission: Permission, kind: str, name: str) -> None:
        """Raise Refused ACCESS_REFUSED unless the user has the permission."""

    def check_topic(self, permission: Permission, exchange: str, routing_key: str) -> None:
        """Raise Refused ACCESS_REFUSED unless the user may use the key at a topic exchange."""


class FullAccess:
    """All permissions, for administrators and tests. Implements `Access`."""

    def check(self, permission: Permission, kind: str, name: str) -> None:
        """Permit every operation on every queue and exchange."""

    def check_topic(self, permission: Permission, exchange: str, routing_key: str) -> None:
        """Permit every routing key at every topic exchange."""


FULL_ACCESS = FullAccess()

_Matches = Callable[[str], bool]


class Permissions:
    """All users' permissions in all vhosts; a user without any in a vhost may do nothing there."""

    def __init__(self) -> None:
        self.version = 0
        """Number of changes so far; cached answers are valid for one version."""
        self._grants: dict[tuple[str, str], dict[Permission, _Matches]] = {}
        self._topics: dict[tuple[str, str, str], dict[Permission, _Matches]] = {}
        self._kept: dict[tuple[str, str, Permission, str], bool] = {}

    def set(self, user: str, vhost: str, grant: Grant) -> None:
        """Set a user's permissions in a vhost; raise InvalidPermission for a bad expression."""
        self._grants[user, vhost] = {
            Permission(name): _matcher(expression, f"the {name} permission of user '{user}'")
            for name, expression in grant._asdict().items()
        }
        self._changed()

    def clear(self, user: str, vhost: str) -> None:
        """Remove a user's permissions in a vhost; topic permissions stay, as in RabbitMQ."""
        self._grants.pop((user, vhost), None)
        self._changed()

    def set_topic(self, user: str, vhost: str, exchange: str, grant: TopicGrant) -> None:
        """Set a user's routing keys at a topic exchange; raise InvalidPermission."""
        self._topics[user, vhost, exchange] = {
            Permission(name): _matcher(
                _expanded(expression, user, vhost),
                f"the topic's {name} permission of user '{user}'",
            )
            for name, expression in grant._asdict().items()
        }
        self._changed()

    def clear_topic(self, user: str, vhost: str, exchange: str | None = None) -> None:
        """Remove a user's topic permissions, which allows all keys, at one or all exchanges."""
        for key in [key for key in self._topics if key[:2] == (user, vhost)]:
            if exchange in {None, key[2]}:
                del self._topics[key]
        self._changed()

    def has_any(self, user: str, vhost: str) -> bool:
        """Tell whether a user has permissions in a vhost, even empty ones: may connect then."""
        return (user, vhost) in self._grants

    def allows(self, user: str, vhost: str, name: str, permission: Permission) -> bool:
        """Tell whether a user has a permission on a queue or an exchange of that name."""
        key = (user, vhost, permission, name)
        kept = self._kept.get(key)
        if kept is None:
            grant = self._grants.get((user, vhost))
            kept = grant is not None and grant[permission](name)
            if len(self._kept) >= ANSWERS_KEPT_MAX:
                self._kept.clear()
            self._kept[key] = kept
        return kept

    def check_topic(
        self, user: str, vhost: str, exchange: str, routing_key: str, permission: Permission
    ) -> None:
        """Raise Refused ACCESS_REFUSED if a user may not use a routing key."""
        grant = self._topics.get((user, vhost, exchange))
        if grant is not None and not grant[permission](routing_key):
            raise refused(
                f"{permission.value} access to topic '{routing_key}' in exchange '{exchange}'"
                f" in vhost '{vhost}' refused for user '{user}'"
            )

    def _changed(self) -> None:
        self._kept.clear()
        self.version += 1


def access_refused(permission: Permission, kind: str, name: str, vhost: str, user: str) -> Refused:
    """Return the error for a missing permission, with RabbitMQ's text."""
    shown = name or DEFAULT_EXCHANGE_NAME if kind == EXCHANGE else name
    return refused(
        f"{permission.value} access to {resource_text(kind, shown, vhost)} refused for user"
        f" '{user}'",
        kind,
    )


def _matcher(expression: str, field: str) -> _Matches:
    # The two most frequent expressions need no library.
    if expression == _EVERYTHING:
        return lambda name: True
    if expression in {"", _NOTHING}:
        return lambda name: not name
    try:
        return regex.searcher(expression, field)
    except ApiError as error:
        raise InvalidPermission(str(error)) from error


def _expanded(expression: str, user: str, vhost: str) -> str:
    if "{" not in expression:
        return expression
    try:
        expanded = expression.replace("{username}", regex.escaped(user))
        return expanded.replace("{vhost}", regex.escaped(vhost))
    except ImportError as error:
        raise InvalidPermission(f"the google-re2 package is missing ({error})") from error
