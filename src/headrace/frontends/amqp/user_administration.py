"""Operations of administrators on AMQP's users, their permissions, and global parameters.

No result and no log contains a password or a hash.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.cluster.settings.user_settings import Deletion, Upsertion
from headrace.frontends.amqp.listing import no_vhost
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.secret import Secret
from headrace.operations.virtual_hosts import (
    ClearGlobalParameter,
    ClearPermission,
    ClearTopicPermission,
    DeleteUser,
    PutUser,
    SetGlobalParameter,
    SetPermission,
    SetTopicPermission,
)
from headrace.queues.permissions.access import Grant, InvalidPermission, Permissions, TopicGrant
from headrace.queues.permissions.definitions import (
    UNLIMITED,
    UserDefinition,
    decode_parameter,
    encode_parameter,
)
from headrace.security.sasl.scram import ITERATIONS_MIN, NUMBERS, salted
from headrace.vhosts.users.rabbit_hash import stored_hash

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.cluster.controller_port import SettingsPort
    from headrace.frontends.amqp.queue_broker import QueueBroker
    from headrace.operations.arguments import Arguments
    from headrace.operations.permissions import Caller
    from headrace.operations.registry import Do
    from headrace.vhosts.vhost_settings_port import VhostSettingsPort

TAGS_MAX = 20


class UserAdministration:
    """The operations on users of one broker. Used on the deciding thread."""

    def __init__(
        self,
        broker: "Broker",
        queues: "QueueBroker",
        settings: "SettingsPort",
        amqp: "VhostSettingsPort",
    ) -> None:
        self._broker = broker
        self._queues = queues
        self._users = settings.users
        self._amqp = amqp
        self.operations: dict[type[Arguments[Any]], Do] = {
            PutUser: self._put_user,
            DeleteUser: self._delete_user,
            SetPermission: self._set_permission,
            ClearPermission: self._clear_permission,
            SetTopicPermission: self._set_topic_permission,
            ClearTopicPermission: self._clear_topic_permission,
            SetGlobalParameter: self._set_parameter,
            ClearGlobalParameter: self._clear_parameter,
        }
        """The operations by the type of their arguments, as `operations.registry` calls them."""

    # users

    async def _put_user(self, caller: "Caller", asked: PutUser) -> None:
        """Store a user's fields; those that are None stay unchanged.

        The password is first, so that one which is taken away ends whatever follows; a hash
        replaces it last. A request that fails between is completed by its repetition.
        """
        name = asked.name
        stored: str | None = None
        if asked.hash is not None:
            if asked.algorithm is None:
                raise ValueError("a hash needs its algorithm")
            stored = stored_hash(asked.algorithm, asked.hash)
        tags = None if asked.tags is None else tags_of(asked.tags)
        if asked.password:
            await self._set_password(name, Secret(asked.password))
        elif asked.password is not None:
            await self._delete_credentials(name)

        def put(user: UserDefinition | None) -> UserDefinition:
            wanted = user or UserDefinition()
            if tags is not None:
                wanted = wanted._replace(tags=tags)
            if asked.max_connections is not None:
                wanted = wanted._replace(connections_max=limit_of(asked.max_connections))
            if asked.max_channels is not None:
                wanted = wanted._replace(channels_max=limit_of(asked.max_channels))
            if stored is not None or asked.password is not None:
                wanted = wanted._replace(password_hash=stored or "")
            return wanted

        await self._amqp.change_user(name, put)
        if stored is not None:
            await self._delete_credentials(name)

    async def _set_password(self, name: str, password: Secret) -> None:
        """Store the SCRAM credentials of a password, of each mechanism. Raises ApiError."""
        random = self._broker.random
        for number, mechanism in NUMBERS.items():
            salt = random.uuid() + random.uuid()
            # 1 to 2 ms for each mechanism: not worth a thread.
            made = salted(mechanism, password, salt, ITERATIONS_MIN)
            wanted = Upsertion(name, number, ITERATIONS_MIN, salt, made)
            error = (await self._users.alter([], [wanted]))[name]
            if error is not None:
                raise error

    async def _delete_credentials(self, name: str) -> bool:
        """Delete a user's SCRAM credentials; return whether there were any. Raises ApiError."""
        found = False
        for number in NUMBERS:
            error = (await self._users.alter([Deletion(name, number)], []))[name]
            if error is None:
                found = True
            elif error.code is not ErrorCode.RESOURCE_NOT_FOUND:
                raise error
        return found

    async def _delete_user(self, caller: "Caller", asked: DeleteUser) -> None:
        """Delete a user with credentials and permissions, and close the user's connections."""
        name = asked.name
        definitions = self._amqp.definitions
        if definitions.default_of(name) is not None:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"user '{name}' is there by amqp.guest=true: take that setting away",
            )
        found = name in definitions.users
        if not await self._delete_credentials(name) and not found:
            raise ApiError(ErrorCode.RESOURCE_NOT_FOUND, f"there is no user '{name}'")
        await self._amqp.change_user(name, lambda user: None)
        self._queues.close_user(name)

    # permissions

    async def _set_permission(self, caller: "Caller", asked: SetPermission) -> None:
        name, vhost = asked.user, asked.vhost
        grant = Grant(asked.configure, asked.write, asked.read)
        self._check_vhost(vhost)
        _check(lambda permissions: permissions.set(name, vhost, grant))

        def granted(user: UserDefinition | None) -> UserDefinition:
            wanted = user or UserDefinition()
            return wanted._replace(grants={**wanted.grants, vhost: grant})

        await self._amqp.change_user(name, granted)

    async def _clear_permission(self, caller: "Caller", asked: ClearPermission) -> None:
        name, vhost = asked.user, asked.vhost

        def cleared(user: UserDefinition | None) -> UserDefinition:
            if user is None or vhost not in user.grants:
                raise ApiError(
                    ErrorCode.RESOURCE_NOT_FOUND,
                    f"user '{name}' has no permissions in vhost '{vhost}'",
                )
            left = {key: grant for key, grant in user.grants.items() if key != vhost}
            return user._replace(grants=left)

        await self._amqp.change_user(name, cleared)

    async def _set_topic_permission(self, caller: "Caller", asked: SetTopicPermission) -> None:
        name, vhost, exchange = asked.user, asked.vhost, asked.exchange
        grant = TopicGrant(asked.write, asked.read)
        self._check_vhost(vhost)
        _check(lambda permissions: permissions.set_topic(name, vhost, exchange, grant))

        def granted(user: UserDefinition | None) -> UserDefinition:
            wanted = user or UserDefinition()
            grants = {**wanted.topic_grants, (vhost, exchange): grant}
            return wanted._replace(topic_grants=grants)

        await self._amqp.change_user(name, granted)

    async def _clear_topic_permission(self, caller: "Caller", asked: ClearTopicPermission) -> None:
        name, vhost, exchange = asked.user, asked.vhost, asked.exchange

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

    def _check_vhost(self, name: str) -> None:
        if name not in self._amqp.definitions.vhosts:
            raise no_vhost(name)

    # global parameters

    async def _set_parameter(self, caller: "Caller", asked: SetGlobalParameter) -> None:
        """Set a global parameter; ValueError for a text that is no JSON."""
        decode_parameter(encode_parameter(asked.value))
        await self._amqp.change_parameter(asked.name, lambda _: asked.value)

    async def _clear_parameter(self, caller: "Caller", asked: ClearGlobalParameter) -> None:
        name = asked.name

        def cleared(value: str | None) -> None:
            if value is None:
                raise ApiError(ErrorCode.RESOURCE_NOT_FOUND, f"there is no parameter '{name}'")

        await self._amqp.change_parameter(name, cleared)


def _check(setting: Callable[[Permissions], None]) -> None:
    """Raise ApiError for an invalid permission, before it is stored."""
    try:
        setting(Permissions())
    except InvalidPermission as error:
        raise ApiError(ErrorCode.INVALID_REGULAR_EXPRESSION, str(error)) from None


def tags_of(tags: tuple[str, ...]) -> tuple[str, ...]:
    """Return tags as they are stored, each once. ValueError: invalid, or too many."""
    if len(tags) > TAGS_MAX:
        raise ValueError(f"a user has a list of at most {TAGS_MAX} tags")
    for tag in tags:
        if not tag or "," in tag or not tag.isprintable():
            raise ValueError(f"{tag!r} is no tag")
    return tuple(dict.fromkeys(tags))


def limit_of(value: int) -> int:
    """Return a limit as it is stored: negative numbers become `UNLIMITED`."""
    return value if value >= 0 else UNLIMITED
