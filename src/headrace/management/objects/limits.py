"""Limits of virtual hosts and of users."""

import json
from collections.abc import Callable, Collection, Mapping

from headrace.management.lists.listing import Listed, listed
from headrace.management.objects.listed_objects import itself
from headrace.management.objects.users import existing_user, limits_of
from headrace.management.requests.errors import bad_request, no_such, not_authorised
from headrace.management.requests.request import (
    ManagementReply,
    ManagementRequest,
    json_object,
    required,
)
from headrace.management.requests.visible import require_vhost, visible_vhosts
from headrace.operations.tags import Tag, suffices
from headrace.operations.virtual_hosts import AlterVhost, PutUser
from headrace.queues.permissions.definitions import UNLIMITED, VhostDefinition

_OF_VHOST: Mapping[str, Callable[[str, int], AlterVhost]] = {
    "max-connections": lambda name, value: AlterVhost(name, max_connections=value),
    "max-queues": lambda name, value: AlterVhost(name, max_queues=value),
}
_OF_USER: Mapping[str, Callable[[str, int], PutUser]] = {
    "max-connections": lambda name, value: PutUser(name, max_connections=value),
    "max-channels": lambda name, value: PutUser(name, max_channels=value),
}
"""By the names of limits: the operation that sets one."""
_NOT_SEEN = "User not authorised to access object"


async def vhost_limits(request: ManagementRequest) -> ManagementReply:
    """Answer the virtual hosts with limits: those that the user may open, or all to monitor."""
    vhosts = request.services.accounts.definitions.vhosts
    sees_all = suffices(request.caller.tags(), Tag.MONITORING)
    names = sorted(vhosts) if sees_all else visible_vhosts(request)
    return await _of_vhosts(request, names)


async def limits_of_vhost(request: ManagementRequest) -> ManagementReply:
    """Answer the limits of a virtual host, a list without any or with one row."""
    return await _of_vhosts(request, [require_vhost(request)])


async def set_vhost_limit(request: ManagementRequest) -> ManagementReply:
    """Set a limit of a virtual host. One below what exists refuses only what is new."""
    name, vhost = request.values["name"], request.values["vhost"]
    (value,) = required(json_object(request.body), "value")
    if vhost not in request.services.accounts.definitions.vhosts:
        raise no_such("vhost_not_found")
    problem = _problem(name, value, _OF_VHOST, "limits")
    if problem:
        raise bad_request(f"Validation failed\n\n{problem}\n")
    await request.services.operations.call(request.caller, _OF_VHOST[name](vhost, value))
    return ManagementReply(204)


async def clear_vhost_limit(request: ManagementRequest) -> ManagementReply:
    """Clear a limit of a virtual host; one that is not set is ignored."""
    vhost, setting = require_vhost(request), _OF_VHOST.get(request.values["name"])
    if setting is not None:
        await request.services.operations.call(request.caller, setting(vhost, UNLIMITED))
    return ManagementReply(204)


async def user_limits(request: ManagementRequest) -> ManagementReply:
    """Answer the users with limits."""
    return await _of_users(request, sorted(request.services.accounts.definitions.users))


async def limits_of_user(request: ManagementRequest) -> ManagementReply:
    """Answer the limits of a user: the caller, or any one to users who monitor."""
    name = request.values["user"]
    if name != request.user.name and not suffices(request.caller.tags(), Tag.MONITORING):
        raise not_authorised(_NOT_SEEN)
    return await _of_users(request, [existing_user(request)])


async def set_user_limit(request: ManagementRequest) -> ManagementReply:
    """Set a limit of a user. One below what is open refuses only what is new."""
    name = request.values["name"]
    (value,) = required(json_object(request.body), "value")
    user = existing_user(request)
    problem = _problem(name, value, _OF_USER, "user-limits")
    if problem:
        raise bad_request(problem)
    await request.services.operations.call(request.caller, _OF_USER[name](user, value))
    return ManagementReply(204)


async def clear_user_limit(request: ManagementRequest) -> ManagementReply:
    """Clear a limit of a user; one that is not set is ignored."""
    user, setting = existing_user(request), _OF_USER.get(request.values["name"])
    if setting is not None:
        await request.services.operations.call(request.caller, setting(user, UNLIMITED))
    return ManagementReply(204)


async def _of_vhosts(request: ManagementRequest, names: list[str]) -> ManagementReply:
    vhosts = request.services.accounts.definitions.vhosts
    limits = ((name, _limits_of_vhost(vhosts[name])) for name in names)
    rows = [{"value": value, "vhost": name} for name, value in limits if value]
    return await listed(rows, request.query, Listed(lambda row: row["vhost"], _vhost, itself))


async def _of_users(request: ManagementRequest, names: list[str]) -> ManagementReply:
    users = request.services.accounts.definitions.users
    limits = ((name, limits_of(users[name])) for name in names if name in users)
    rows = [{"user": name, "value": value} for name, value in limits if value]
    return await listed(rows, request.query, Listed(lambda row: row["user"], _user, itself))


def _vhost(row: Mapping[str, object]) -> object:
    return row["vhost"]


def _user(row: Mapping[str, object]) -> object:
    return row["user"]


def _limits_of_vhost(vhost: VhostDefinition) -> dict[str, int]:
    limits = {"max-connections": vhost.connections_max, "max-queues": vhost.queues_max}
    return {name: value for name, value in limits.items() if value >= 0}


def _problem(name: str, value: object, known: Collection[str], what: str) -> str | None:
    """Return RabbitMQ's text for an unknown limit or a value that is no integer."""
    if name not in known:
        return f"Unrecognised terms [{{<<{json.dumps(name)}>>,{_term(value)}}}] in {what}"
    if not isinstance(value, int) or isinstance(value, bool):
        return f"{name} should be a number, actually was {_term(value)}"
    return None


def _term(value: object) -> str:
    """Return a JSON value as RabbitMQ prints it in these texts."""
    shown = json.dumps(value, ensure_ascii=False)
    return f"<<{shown}>>" if isinstance(value, str) else shown
