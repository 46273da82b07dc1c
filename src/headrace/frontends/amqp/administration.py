"""Operations of administrators on AMQP: vhosts, users, permissions, connections.

Called through `operations.registry`, which checks permissions and writes the audit log. No result
contains a password hash.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.cluster.settings.user_settings import Deletion
from headrace.frontends.amqp.listing import Listing, no_vhost
from headrace.frontends.amqp.queue_members import QueueMembers
from headrace.frontends.amqp.queue_plans import QueuePlans
from headrace.frontends.amqp.topology import Topology
from headrace.frontends.amqp.views.operations import views_of
from headrace.model.errors import ApiError, ErrorCode
from headrace.operations.virtual_hosts import (
    AlterVhost,
    ClearPermission,
    ClearTopicPermission,
    CloseConnections,
    CreateVhost,
    DeleteUser,
    DeleteVhost,
    PutUser,
    SetPermission,
    SetTopicPermission,
)
from headrace.posix.awaiting import called_back
from headrace.queues.permissions.access import Grant, InvalidPermission, Permissions, TopicGrant
from headrace.queues.permissions.definitions import UNLIMITED, UserDefinition, VhostDefinition
from headrace.queues.queue_names import DEFAULT_VHOST
from headrace.security.sasl.scram import NUMBERS
from headrace.vhosts.users.rabbit_hash import stored_hash

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.cluster.controller_port import SettingsPort, VhostSettingsPort
    from headrace.frontends.amqp.queue_broker import QueueBroker
    from headrace.operations.arguments import Arguments
    from headrace.operations.permissions import Caller
    from headrace.operations.registry import Do

TAGS_MAX = 20


class Administration:
    """The AMQP operations of one broker. Used on the deciding thread."""

    def __init__(
        self,
        broker: "Broker",
        queues: "QueueBroker",
        settings: "SettingsPort",
        amqp: "VhostSettingsPort",
    ) -> None:
        self._queues = queues
        self._users = settings.users
        self._amqp = amqp
        members = QueueMembers(broker, queues.declarations)
        self.operations: dict[type[Arguments[Any]], Do] = {
            CreateVhost: self._create_vhost,
            AlterVhost: self._alter_vhost,
            DeleteVhost: self._delete_vhost,
            PutUser: self._put_user,
            DeleteUser: self._delete_user,
            SetPermission: self._set_permission,
            ClearPermission: self._clear_permission,
            SetTopicPermission: self._set_topic_permission,
            ClearTopicPermission: self._clear_topic_permission,
            CloseConnections: self._close_connections,
            **Topology(queues).operations,
            **Listing(queues, amqp.definitions, members).operations,
            **QueuePlans(broker, queues, settings, members).operations,
            **views_of(queues, members),
        }
        """The operations by the type of their arguments, as `operations.registry` calls them."""

    # vhosts

    async def _create_vhost(self, caller: "Caller", asked: CreateVhost) -> None:
        name = asked.name

        def created(vhost: VhostDefinition | None) -> VhostDefinition:
            if vhost is not None:
                raise ApiError(ErrorCode.DUPLICATE_RESOURCE, f"there is a vhost '{name}' already")
            return _vhost_with(VhostDefinition(), asked)

        await self._amqp.change_vhost(name, created)

    async def _alter_vhost(self, caller: "Caller", asked: AlterVhost) -> None:
        name = asked.name

        def altered(vhost: VhostDefinition | None) -> VhostDefinition:
            if vhost is None:
                raise no_vhost(name)
            return _vhost_with(vhost, asked)

        await self._amqp.change_vhost(name, altered)

    async def _delete_vhost(self, caller: "Caller", asked: DeleteVhost) -> None:
        name = asked.name
        if name == DEFAULT_VHOST:
            raise ApiError(ErrorCode.INVALID_REQUEST, "the vhost '/' is always there")
        self._check_vhost(name)

        def without(user: UserDefinition | None) -> UserDefinition | None:
            return None if user is None else _without_vhost(user, name)

        # Permissions first: a later vhost of that name must begin without any.
        definitions = self._amqp.definitions
        for user, kept in list(definitions.users.items()):
            if _without_vhost(kept, name) != kept:
                await self._amqp.change_user(user, without)

        def deleted(vhost: VhostDefinition | None) -> None:
            if vhost is None:
                raise no_vhost(name)

        # Declarations next: they would be those of a later vhost of that name.
        if self._queues.declarations is not None:
            await self._queues.declarations.delete_vhost(name)
            await self._amqp.change_vhost(name, deleted)
            return
        try:
            await called_back(partial(self._queues.empty, name))
            await self._amqp.change_vhost(name, deleted)
        finally:
            self._queues.use_again(name)

    def _check_vhost(self, name: str) -> None:
        if name not in self._amqp.definitions.vhosts:
            raise no_vhost(name)

    # users

    async def _put_user(self, caller: "Caller", asked: PutUser) -> None:
        """Store tags, limits and RabbitMQ's hash of a user; fields that are None stay unchanged."""

        def put(user: UserDefinition | None) -> UserDefinition:
            wanted = user or UserDefinition()
            if asked.tags is not None:
                wanted = wanted._replace(tags=_tags(asked.tags))
            if asked.max_connections is not None:
                wanted = wanted._replace(connections_max=_limit(asked.max_connections))
            if asked.max_channels is not None:
                wanted = wanted._replace(channels_max=_limit(asked.max_channels))
            if asked.hash is not None:
                if asked.algorithm is None:
                    raise ValueError("a hash needs its algorithm")
                stored = stored_hash(asked.algorithm, asked.hash)
                wanted = wanted._replace(password_hash=stored)
            return wanted

        await self._amqp.change_user(asked.name, put)

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

    # connections

    async def _close_connections(self, caller: "Caller", asked: CloseConnections) -> int:
        """Close the connection of a name, or all of a user; return how many were closed."""
        user, name = asked.user, asked.name
        found = [
            client
            for client in self._queues.clients
            if (user is not None and client.user == user) or client.name == name
        ]
        for client in found:
            client.close((asked.reason or "closed by an administrator")[:200])
        return len(found)


def _check(setting: Callable[[Permissions], None]) -> None:
    """Raise ApiError for an invalid permission, before it is stored."""
    try:
        setting(Permissions())
    except InvalidPermission as error:
        raise ApiError(ErrorCode.INVALID_REGULAR_EXPRESSION, str(error)) from None


def _vhost_with(vhost: VhostDefinition, asked: CreateVhost | AlterVhost) -> VhostDefinition:
    if asked.description is not None:
        vhost = vhost._replace(description=asked.description)
    if asked.max_connections is not None:
        vhost = vhost._replace(connections_max=_limit(asked.max_connections))
    if asked.max_queues is not None:
        vhost = vhost._replace(queues_max=_limit(asked.max_queues))
    return vhost


def _without_vhost(user: UserDefinition, vhost: str) -> UserDefinition:
    return user._replace(
        grants={key: grant for key, grant in user.grants.items() if key != vhost},
        topic_grants={key: grant for key, grant in user.topic_grants.items() if key[0] != vhost},
    )


def _tags(tags: tuple[str, ...]) -> tuple[str, ...]:
    if len(tags) > TAGS_MAX:
        raise ValueError(f"a user has a list of at most {TAGS_MAX} tags")
    for tag in tags:
        if not tag or "," in tag or not tag.isprintable():
            raise ValueError(f"{tag!r} is no tag")
    return tuple(dict.fromkeys(tags))


def _limit(value: int) -> int:
    """Return a limit as it is stored: negative numbers become `UNLIMITED`."""
    return value if value >= 0 else UNLIMITED
