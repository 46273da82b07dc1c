"""What administrators ask about AMQP: what there is is changed, and listed.

`headrace amqp` asks it by Kafka's protocol (`frontends/kafka/admin/amqp_administration.py`), which
says who may. Questions and answers are JSON's values; a password's hash is never told.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.cluster.settings.user_settings import Deletion
from headrace.frontends.amqp.listing import Listing, no_vhost
from headrace.frontends.amqp.topology import Topology
from headrace.model.errors import ApiError, ErrorCode
from headrace.queues.permissions.access import Grant, InvalidPermission, Permissions, TopicGrant
from headrace.queues.permissions.definitions import UNLIMITED, UserDefinition, VhostDefinition
from headrace.queues.permissions.rabbit_hash import stored_hash
from headrace.queues.queue_names import DEFAULT_VHOST
from headrace.security.sasl.scram import NUMBERS

if TYPE_CHECKING:
    from headrace.cluster.controller_port import AmqpSettingsPort, UserSettingsPort
    from headrace.frontends.amqp.queue_broker import QueueBroker

Question = Mapping[str, Any]
Do = Callable[[Question], Awaitable[object]]

TAGS_MAX = 20
_TEXTS = frozenset(
    {
        "name",
        "user",
        "vhost",
        "exchange",
        "description",
        "reason",
        "configure",
        "write",
        "read",
        "hash",
        "algorithm",
    }
)
"""Fields of questions that are texts."""


class Operation(NamedTuple):
    """One thing that can be asked."""

    changes: bool
    do: Do


class Administration:
    """All that administrators ask. On the deciding thread."""

    def __init__(
        self, queues: "QueueBroker", users: "UserSettingsPort", amqp: "AmqpSettingsPort"
    ) -> None:
        self._queues = queues
        self._users = users
        self._amqp = amqp
        listing = Listing(queues, amqp.definitions)
        changes: dict[str, Do] = {
            "vhost.create": self._create_vhost,
            "vhost.alter": self._alter_vhost,
            "vhost.delete": self._delete_vhost,
            "user.put": self._put_user,
            "user.delete": self._delete_user,
            "permission.set": self._set_permission,
            "permission.clear": self._clear_permission,
            "topic-permission.set": self._set_topic_permission,
            "topic-permission.clear": self._clear_topic_permission,
            "connection.close": self._close_connections,
            **Topology(queues).changes,
        }
        self._operations = {name: Operation(True, do) for name, do in changes.items()} | {
            f"{kind}.list": Operation(False, _answering(do)) for kind, do in listing.by_kind.items()
        }

    def changes(self, name: str) -> bool:
        """Tell whether an operation changes something; ApiError: there is none."""
        return self._operation(name).changes

    async def ask(self, name: str, question: Question) -> object:
        """Do what is asked; returns the answer. ApiError."""
        operation = self._operation(name)
        try:
            for word in _TEXTS & question.keys():
                _text(question[word])
            return await operation.do(question)
        except (KeyError, TypeError, ValueError) as error:
            # A question that is none: our own command asks others.
            text = f"{name}: {error.args[0] if error.args else error}"
            raise ApiError(ErrorCode.INVALID_REQUEST, text) from error

    def _operation(self, name: str) -> Operation:
        operation = self._operations.get(name)
        if operation is None:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"no operation {name[:100]!r} is known here")
        return operation

    # vhosts

    async def _create_vhost(self, question: Question) -> None:
        name = question["name"]

        def created(vhost: VhostDefinition | None) -> VhostDefinition:
            if vhost is not None:
                raise ApiError(ErrorCode.DUPLICATE_RESOURCE, f"there is a vhost '{name}' already")
            return _vhost_with(VhostDefinition(), question)

        await self._amqp.change_vhost(name, created)

    async def _alter_vhost(self, question: Question) -> None:
        name = question["name"]

        def altered(vhost: VhostDefinition | None) -> VhostDefinition:
            if vhost is None:
                raise no_vhost(name)
            return _vhost_with(vhost, question)

        await self._amqp.change_vhost(name, altered)

    async def _delete_vhost(self, question: Question) -> None:
        name = question["name"]
        if name == DEFAULT_VHOST:
            raise ApiError(ErrorCode.INVALID_REQUEST, "the vhost '/' is always there")
        self._check_vhost(name)

        def without(user: UserDefinition | None) -> UserDefinition | None:
            return None if user is None else _without_vhost(user, name)

        # First what may be done there: a vhost of that name that comes later begins with nothing.
        definitions = self._amqp.definitions
        for user, kept in list(definitions.users.items()):
            if _without_vhost(kept, name) != kept:
                await self._amqp.change_user(user, without)

        def deleted(vhost: VhostDefinition | None) -> None:
            if vhost is None:
                raise no_vhost(name)

        await self._amqp.change_vhost(name, deleted)

    def _check_vhost(self, name: str) -> None:
        if name not in self._amqp.definitions.vhosts:
            raise no_vhost(name)

    # users

    async def _put_user(self, question: Question) -> None:
        """Keep tags, limits and RabbitMQ's hash of a user; what is not said stays."""

        def put(user: UserDefinition | None) -> UserDefinition:
            wanted = user or UserDefinition()
            if "tags" in question:
                wanted = wanted._replace(tags=_tags(question["tags"]))
            if "max_connections" in question:
                wanted = wanted._replace(connections_max=_limit(question["max_connections"]))
            if "max_channels" in question:
                wanted = wanted._replace(channels_max=_limit(question["max_channels"]))
            if "hash" in question:
                stored = stored_hash(question["algorithm"], question["hash"])
                wanted = wanted._replace(password_hash=stored)
            return wanted

        await self._amqp.change_user(question["name"], put)

    async def _delete_user(self, question: Question) -> None:
        """Delete a user whole: credentials, permissions, connections."""
        name = question["name"]
        definitions = self._amqp.definitions
        if definitions.default_of(name) is not None:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"user '{name}' is there by amqp.guest=true: take that setting away",
            )
        found = name in definitions.users
        for number in NUMBERS:
            outcome = await self._users.alter([Deletion(name, number)], [])
            error = outcome[name]
            if error is None:
                found = True
            elif error.code is not ErrorCode.RESOURCE_NOT_FOUND:
                raise error
        if not found:
            raise ApiError(ErrorCode.RESOURCE_NOT_FOUND, f"there is no user '{name}'")
        await self._amqp.change_user(name, lambda user: None)
        self._queues.close_user(name)

    # permissions

    async def _set_permission(self, question: Question) -> None:
        name, vhost = question["user"], question["vhost"]
        grant = Grant(*(question[word] for word in Grant._fields))
        self._check_vhost(vhost)
        _check(lambda permissions: permissions.set(name, vhost, grant))

        def granted(user: UserDefinition | None) -> UserDefinition:
            wanted = user or UserDefinition()
            return wanted._replace(grants={**wanted.grants, vhost: grant})

        await self._amqp.change_user(name, granted)

    async def _clear_permission(self, question: Question) -> None:
        name, vhost = question["user"], question["vhost"]

        def cleared(user: UserDefinition | None) -> UserDefinition:
            if user is None or vhost not in user.grants:
                raise ApiError(
                    ErrorCode.RESOURCE_NOT_FOUND,
                    f"user '{name}' has no permissions in vhost '{vhost}'",
                )
            left = {key: grant for key, grant in user.grants.items() if key != vhost}
            return user._replace(grants=left)

        await self._amqp.change_user(name, cleared)

    async def _set_topic_permission(self, question: Question) -> None:
        name, vhost, exchange = question["user"], question["vhost"], question["exchange"]
        grant = TopicGrant(*(question[word] for word in TopicGrant._fields))
        self._check_vhost(vhost)
        _check(lambda permissions: permissions.set_topic(name, vhost, exchange, grant))

        def granted(user: UserDefinition | None) -> UserDefinition:
            wanted = user or UserDefinition()
            grants = {**wanted.topic_grants, (vhost, exchange): grant}
            return wanted._replace(topic_grants=grants)

        await self._amqp.change_user(name, granted)

    async def _clear_topic_permission(self, question: Question) -> None:
        name, vhost, exchange = question["user"], question["vhost"], question.get("exchange")

        def cleared(user: UserDefinition | None) -> UserDefinition:
            grants = {} if user is None else user.topic_grants
            left = {
                key: grant
                for key, grant in grants.items()
                if key[0] != vhost or exchange not in {None, key[1]}
            }
            if user is None or len(left) == len(grants):
                raise ApiError(
                    ErrorCode.RESOURCE_NOT_FOUND,
                    f"user '{name}' has no such topic permissions in vhost '{vhost}'",
                )
            return user._replace(topic_grants=left)

        await self._amqp.change_user(name, cleared)

    # connections

    async def _close_connections(self, question: Question) -> int:
        """Close the connection of a name, or all of a user; returns how many."""
        user, name = question.get("user"), question.get("name")
        found = [
            client
            for client in self._queues.clients
            if (user is not None and client.user == user) or client.name == name
        ]
        for client in found:
            client.close((question.get("reason") or "closed by an administrator")[:200])
        return len(found)


def _answering(do: Callable[[Question], object]) -> Do:
    async def answer(question: Question) -> object:
        return do(question)

    return answer


def _check(setting: Callable[[Permissions], None]) -> None:
    """Refuse what cannot be set, before it is written. ApiError."""
    try:
        setting(Permissions())
    except InvalidPermission as error:
        raise ApiError(ErrorCode.INVALID_REGULAR_EXPRESSION, str(error)) from None


def _vhost_with(vhost: VhostDefinition, question: Question) -> VhostDefinition:
    if "description" in question:
        vhost = vhost._replace(description=question["description"])
    if "max_connections" in question:
        vhost = vhost._replace(connections_max=_limit(question["max_connections"]))
    if "max_queues" in question:
        vhost = vhost._replace(queues_max=_limit(question["max_queues"]))
    return vhost


def _without_vhost(user: UserDefinition, vhost: str) -> UserDefinition:
    return user._replace(
        grants={key: grant for key, grant in user.grants.items() if key != vhost},
        topic_grants={key: grant for key, grant in user.topic_grants.items() if key[0] != vhost},
    )


def _tags(tags: object) -> tuple[str, ...]:
    if not isinstance(tags, list) or len(tags) > TAGS_MAX:
        raise ValueError(f"a user has a list of at most {TAGS_MAX} tags")
    for tag in tags:
        if not isinstance(tag, str) or not tag or "," in tag or not tag.isprintable():
            raise ValueError(f"{tag!r} is no tag")
    return tuple(dict.fromkeys(tags))


def _limit(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError("a limit is a number; one below 0 is none")
    return value if value >= 0 else UNLIMITED


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")
    return value
