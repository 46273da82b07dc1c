"""Definitions for AMQP clients: vhosts, and users with their limits and permissions.

The metadata store has a node of settings for each, as texts (`encode_vhost`, `encode_user`); this
module follows them. SCRAM credentials are the broker's (`security.sasl.users`). An imported user
may have RabbitMQ's password hash, which is valid for one login.
"""

import json
import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple

from headrace.queues.permissions.access import Grant, InvalidPermission, Permissions, TopicGrant
from headrace.queues.queue_names import DEFAULT_VHOST

_logger = logging.getLogger(__name__)

GUEST = "guest"
"""RabbitMQ's initial user, whose password is its name."""
UNLIMITED = -1
NAME_BYTES_MAX = 255
"""Longest name of a vhost or user in bytes: that of a short string of AMQP."""

_DESCRIPTION, _TAGS, _HASH = "description", "tags", "rabbitmq.password.hash"
_QUEUE_TYPE, _TRACING, _PROTECTED = "default-queue-type", "tracing", "protected-from-deletion"
_TRUE, _VALUE = "true", "value"
_MAX_CONNECTIONS, _MAX_QUEUES, _MAX_CHANNELS = "max-connections", "max-queues", "max-channels"
_PERMISSIONS, _TOPICS = "permissions/", "topic-permissions/"
EVERYTHING = Grant(".*", ".*", ".*")
"""Permissions on all names."""
_OF_VHOST = frozenset(
    {_DESCRIPTION, _TAGS, _QUEUE_TYPE, _TRACING, _PROTECTED, _MAX_CONNECTIONS, _MAX_QUEUES}
)
_OF_USER = frozenset({_TAGS, _HASH, _MAX_CONNECTIONS, _MAX_CHANNELS})

Texts = Mapping[str, str]


class VhostDefinition(NamedTuple):
    """A vhost's settings; a negative limit is unlimited."""

    description: str = ""
    connections_max: int = UNLIMITED
    queues_max: int = UNLIMITED
    tags: tuple[str, ...] = ()
    default_queue_type: str = ""
    """The type of queues that are declared without one; empty: classic."""
    tracing: bool = False
    """Whether messages are copied to the exchange of the firehose."""
    protected: bool = False
    """Whether the vhost cannot be deleted until its protection is removed."""
    others: Mapping[str, str] = {}
    """Settings of a later version, which are stored unchanged."""


class UserDefinition(NamedTuple):
    """A user's settings for AMQP; a negative limit is unlimited."""

    tags: tuple[str, ...] = ()
    connections_max: int = UNLIMITED
    channels_max: int = UNLIMITED
    grants: Mapping[str, Grant] = {}
    """Permissions by vhost."""
    topic_grants: Mapping[tuple[str, str], TopicGrant] = {}
    """Topic permissions by vhost and exchange."""
    password_hash: str = ""
    """RabbitMQ's password hash, `ALGORITHM:BASE64` (`rabbit_hash`); empty: no hash."""
    others: Mapping[str, str] = {}
    """Settings of a later version, which are stored unchanged."""

    def __repr__(self) -> str:
        return f"UserDefinition(tags={self.tags}, grants={dict(self.grants)}, ***)"


DEFAULT_VHOST_BY_DEFAULT = VhostDefinition("Default virtual host")
"""The definition of the vhost `/` if none is stored."""
GUEST_BY_DEFAULT = UserDefinition(("administrator",), grants={DEFAULT_VHOST: EVERYTHING})


def encode_vhost(vhost: VhostDefinition) -> dict[str, str]:
    """Return a vhost's settings as texts, never an empty mapping."""
    texts = {
        **vhost.others,
        _DESCRIPTION: vhost.description,
        **_limit(_MAX_CONNECTIONS, vhost.connections_max),
        **_limit(_MAX_QUEUES, vhost.queues_max),
    }
    if vhost.tags:
        texts[_TAGS] = ",".join(vhost.tags)
    if vhost.default_queue_type:
        texts[_QUEUE_TYPE] = vhost.default_queue_type
    if vhost.tracing:
        texts[_TRACING] = _TRUE
    if vhost.protected:
        texts[_PROTECTED] = _TRUE
    return texts


def decode_vhost(texts: Texts) -> VhostDefinition:
    """Return the vhost that `encode_vhost` wrote; raise ValueError."""
    return VhostDefinition(
        texts.get(_DESCRIPTION, ""),
        int(texts.get(_MAX_CONNECTIONS, UNLIMITED)),
        int(texts.get(_MAX_QUEUES, UNLIMITED)),
        _listed(texts.get(_TAGS, "")),
        texts.get(_QUEUE_TYPE, ""),
        texts.get(_TRACING) == _TRUE,
        texts.get(_PROTECTED) == _TRUE,
        {key: text for key, text in texts.items() if key not in _OF_VHOST},
    )


def encode_user(user: UserDefinition) -> dict[str, str]:
    """Return a user's settings as texts, never an empty mapping."""
    texts = {
        **user.others,
        _TAGS: ",".join(user.tags),
        **_limit(_MAX_CONNECTIONS, user.connections_max),
        **_limit(_MAX_CHANNELS, user.channels_max),
    }
    if user.password_hash:
        texts[_HASH] = user.password_hash
    for vhost, grant in user.grants.items():
        texts[_PERMISSIONS + vhost] = json.dumps(grant, ensure_ascii=False)
    of_vhosts: dict[str, dict[str, TopicGrant]] = {}
    for (vhost, exchange), topic_grant in user.topic_grants.items():
        of_vhosts.setdefault(vhost, {})[exchange] = topic_grant
    for vhost, of_exchanges in of_vhosts.items():
        texts[_TOPICS + vhost] = json.dumps(of_exchanges, ensure_ascii=False)
    return texts


def decode_user(texts: Texts) -> UserDefinition:
    """Return the user that `encode_user` wrote; raise ValueError."""
    grants: dict[str, Grant] = {}
    topic_grants: dict[tuple[str, str], TopicGrant] = {}
    others: dict[str, str] = {}
    for key, text in texts.items():
        if key.startswith(_PERMISSIONS):
            grants[key.removeprefix(_PERMISSIONS)] = Grant(*_strings(json.loads(text), 3))
        elif key.startswith(_TOPICS):
            vhost = key.removeprefix(_TOPICS)
            for exchange, pair in dict(json.loads(text)).items():
                topic_grants[vhost, exchange] = TopicGrant(*_strings(pair, 2))
        elif key not in _OF_USER:
            others[key] = text
    return UserDefinition(
        _listed(texts.get(_TAGS, "")),
        int(texts.get(_MAX_CONNECTIONS, UNLIMITED)),
        int(texts.get(_MAX_CHANNELS, UNLIMITED)),
        grants,
        topic_grants,
        texts.get(_HASH, ""),
        others,
    )


def encode_parameter(value: str) -> dict[str, str]:
    """Return a global parameter's value, a JSON text, as it is stored."""
    return {_VALUE: value}


def decode_parameter(texts: Texts) -> str:
    """Return the value that `encode_parameter` wrote; raise ValueError."""
    value = texts.get(_VALUE, "")
    json.loads(value)
    return value


def _listed(text: str) -> tuple[str, ...]:
    return tuple(each for each in text.split(",") if each)


def _limit(name: str, most: int) -> dict[str, str]:
    return {} if most < 0 else {name: str(most)}


def _strings(value: object, count: int) -> list[str]:
    if not isinstance(value, list) or len(value) != count:
        raise ValueError("is no list of expressions")
    return [str(expression) for expression in value]


class Definitions:
    """All vhosts and users, as stored in the metadata store. On the deciding thread."""

    def __init__(self, *, guest: bool = False) -> None:
        """Create definitions with vhost `/`.

        `guest`: whether user guest exists, with its default permissions.
        """
        self.guest = guest
        self.permissions = Permissions()
        self.vhosts: dict[str, VhostDefinition] = {DEFAULT_VHOST: DEFAULT_VHOST_BY_DEFAULT}
        self.users: dict[str, UserDefinition] = {}
        self.parameters: dict[str, str] = {}
        """Global parameters: JSON texts by name."""
        self.vhost_changed: list[Callable[[str], None]] = []
        """Callbacks with the name of each vhost that was added, altered or deleted."""
        self.user_changed: list[Callable[[str], None]] = []
        """Callbacks with the name of each user that was added, altered or deleted."""
        if guest:
            self._follow(GUEST, GUEST_BY_DEFAULT)

    def put_vhost(self, name: str, vhost: VhostDefinition | None) -> None:
        """Set or delete (None) a vhost and notify observers; deleting `/` resets it to defaults."""
        if vhost is None and name == DEFAULT_VHOST:
            vhost = DEFAULT_VHOST_BY_DEFAULT
        if self.vhosts.get(name) == vhost:
            return
        if vhost is None:
            del self.vhosts[name]
        else:
            self.vhosts[name] = vhost
        for told in self.vhost_changed:
            told(name)

    def put_user(self, name: str, user: UserDefinition | None) -> None:
        """Set or delete (None) a user's definition, and notify observers."""
        if user is None:
            user = self.default_of(name)
        if self.users.get(name) == user:
            return
        self._follow(name, user)
        for told in self.user_changed:
            told(name)

    def put_parameter(self, name: str, value: str | None) -> None:
        """Set or delete (None) a global parameter."""
        if value is None:
            self.parameters.pop(name, None)
        else:
            self.parameters[name] = value

    def default_of(self, name: str) -> UserDefinition | None:
        """Return a user's definition if none is stored: that of guest, or None."""
        return GUEST_BY_DEFAULT if self.guest and name == GUEST else None

    def replace(
        self, vhosts: Mapping[str, VhostDefinition], users: Mapping[str, UserDefinition]
    ) -> None:
        """Set exactly these vhosts and users; others are deleted."""
        for name in [*self.vhosts, *vhosts]:
            self.put_vhost(name, vhosts.get(name))
        for name in [*self.users, *users]:
            self.put_user(name, users.get(name))

    def _follow(self, name: str, user: UserDefinition | None) -> None:
        permissions = self.permissions
        before = self.users.pop(name, UserDefinition())
        for vhost in before.grants:
            permissions.clear(name, vhost)
        for vhost, exchange in before.topic_grants:
            permissions.clear_topic(name, vhost, exchange)
        if user is None:
            return
        self.users[name] = user
        try:
            for vhost, grant in user.grants.items():
                permissions.set(name, vhost, grant)
            for (vhost, exchange), topic_grant in user.topic_grants.items():
                permissions.set_topic(name, vhost, exchange, topic_grant)
        except InvalidPermission as error:
            # Written by a broker with another library: no permissions are safer than too many.
            for vhost in user.grants:
                permissions.clear(name, vhost)
            _logger.error(
                "user %r has no AMQP permissions, as a stored permission is invalid: %s. Set the"
                " user's permissions again", name, error,
            )  # fmt: skip


def check_name(kind: str, name: str) -> None:
    """Raise ValueError if a vhost or a user cannot have a name."""
    if not name or name in {".", ".."}:
        raise ValueError(f"{name!r} cannot be the name of a {kind}")
    if len(name.encode("utf-8", "replace")) > NAME_BYTES_MAX:
        raise ValueError(f"the name of a {kind} has at most {NAME_BYTES_MAX} bytes")
    if any(ord(character) < ord(" ") or ord(character) == 127 for character in name):
        raise ValueError(f"{name!r}: the name of a {kind} has no control characters")
