"""Operations of administrators on AMQP: vhosts and connections; the others by their classes.

Called through `operations.registry`, which checks permissions and writes the audit log. No result
contains a password hash.
"""

from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.frontends.amqp.listing import Listing, no_vhost
from headrace.frontends.amqp.policy_administration import PolicyAdministration
from headrace.frontends.amqp.queue_members import QueueMembers
from headrace.frontends.amqp.queue_plans import QueuePlans
from headrace.frontends.amqp.topology import Topology
from headrace.frontends.amqp.user_administration import (
    UserAdministration,
    limit_of,
    tags_of,
)
from headrace.frontends.amqp.views.operations import views_of
from headrace.model.errors import ApiError, ErrorCode
from headrace.operations.virtual_hosts import (
    AlterVhost,
    CloseConnections,
    CreateVhost,
    DeleteVhost,
)
from headrace.posix.awaiting import called_back
from headrace.queue_stores.queue_settings import QueueType
from headrace.queues.permissions.definitions import EVERYTHING, UserDefinition, VhostDefinition
from headrace.queues.queue_names import DEFAULT_VHOST

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.cluster.controller_port import SettingsPort
    from headrace.frontends.amqp.queue_broker import QueueBroker
    from headrace.operations.arguments import Arguments
    from headrace.operations.permissions import Caller
    from headrace.operations.registry import Do
    from headrace.vhosts.vhost_settings_port import VhostSettingsPort


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
        self._amqp = amqp
        members = QueueMembers(broker, queues.declarations)
        self.operations: dict[type[Arguments[Any]], Do] = {
            CreateVhost: self._create_vhost,
            AlterVhost: self._alter_vhost,
            DeleteVhost: self._delete_vhost,
            CloseConnections: self._close_connections,
            **UserAdministration(broker, queues, settings, amqp).operations,
            **Topology(queues).operations,
            **Listing(queues, amqp.definitions, members).operations,
            **QueuePlans(broker, queues, settings, members).operations,
            **PolicyAdministration(broker, queues).operations,
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

        if asked.owner is not None and name not in self._amqp.definitions.vhosts:
            # Before the vhost: if the store is away then, a repeated request completes both.
            await self._amqp.change_user(asked.owner, partial(_with_all, vhost=name))
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
        found = self._amqp.definitions.vhosts.get(name)
        _check_deletion(name, found)
        # Permissions first, and those set meanwhile: a later vhost must begin without any.
        await self._clear_permissions(name)
        # Declarations next: they would be those of a later vhost of that name.
        deleted = partial(_check_deletion, name)
        if self._queues.declarations is not None:
            await self._queues.declarations.delete_vhost(name)
            await self._amqp.change_vhost(name, deleted)
        else:
            try:
                await called_back(partial(self._queues.empty, name))
                await self._amqp.change_vhost(name, deleted)
            finally:
                self._queues.use_again(name)
        await self._clear_permissions(name)

    async def _clear_permissions(self, vhost: str) -> None:
        """Delete the permissions of all users in a vhost. Raises ApiError."""

        def without(user: UserDefinition | None) -> UserDefinition | None:
            return None if user is None else _without_vhost(user, vhost)

        for user, kept in list(self._amqp.definitions.users.items()):
            if _without_vhost(kept, vhost) != kept:
                await self._amqp.change_user(user, without)

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


def _check_deletion(name: str, vhost: VhostDefinition | None) -> None:
    """Raise ApiError for a vhost that does not exist or that is protected from deletion."""
    if vhost is None:
        raise no_vhost(name)
    if vhost.protected:
        raise ApiError(ErrorCode.POLICY_VIOLATION, f"the vhost '{name}' is protected from deletion")


def _with_all(user: UserDefinition | None, vhost: str) -> UserDefinition:
    """Return a user with all permissions in a vhost."""
    found = user or UserDefinition()
    return found._replace(grants={**found.grants, vhost: EVERYTHING})


def _vhost_with(vhost: VhostDefinition, asked: CreateVhost | AlterVhost) -> VhostDefinition:
    if asked.description is not None:
        vhost = vhost._replace(description=asked.description)
    if asked.max_connections is not None:
        vhost = vhost._replace(connections_max=limit_of(asked.max_connections))
    if asked.max_queues is not None:
        vhost = vhost._replace(queues_max=limit_of(asked.max_queues))
    if asked.tags is not None:
        vhost = vhost._replace(tags=tags_of(asked.tags))
    if asked.default_queue_type is not None:
        vhost = vhost._replace(default_queue_type=_queue_type(asked.default_queue_type))
    if asked.tracing is not None:
        vhost = vhost._replace(tracing=asked.tracing)
    if asked.protected is not None:
        vhost = vhost._replace(protected=asked.protected)
    return vhost


def _without_vhost(user: UserDefinition, vhost: str) -> UserDefinition:
    return user._replace(
        grants={key: grant for key, grant in user.grants.items() if key != vhost},
        topic_grants={key: grant for key, grant in user.topic_grants.items() if key[0] != vhost},
    )


def _queue_type(name: str) -> str:
    """Return the name of a queue type, or an empty one. ValueError: it is unknown."""
    return name and QueueType(name).value
