"""Permissions of users in virtual hosts, and on routing keys of topic exchanges."""

from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter

from headrace.management.lists.columns import columns_of, of_object
from headrace.management.lists.listing import Listed, listed
from headrace.management.objects.listed_objects import exchange_named, itself
from headrace.management.requests.errors import bad_request, not_found
from headrace.management.requests.request import (
    ManagementReply,
    ManagementRequest,
    json_object,
    required,
)
from headrace.model.errors import ApiError, ErrorCode
from headrace.operations.arguments import Arguments
from headrace.operations.virtual_hosts import (
    ClearPermission,
    ClearTopicPermission,
    SetPermission,
    SetTopicPermission,
)
from headrace.queues.permissions.definitions import UserDefinition

_UNKNOWN = "vhost_or_user_not_found"
_NAME = itemgetter("user")
_Row = Mapping[str, object]


async def permissions(request: ManagementRequest) -> ManagementReply:
    """Answer the permissions of all users."""
    return await _listed(request, _granted(request))


async def permissions_in(request: ManagementRequest, vhost: str) -> ManagementReply:
    """Answer the permissions of all users in a virtual host."""
    return await _listed(request, (row for row in _granted(request) if row["vhost"] == vhost))


async def permissions_of(request: ManagementRequest, user: str) -> ManagementReply:
    """Answer the permissions of a user."""
    return await _listed(request, (row for row in _granted(request) if row["user"] == user))


async def permission(request: ManagementRequest) -> ManagementReply:
    """Answer the permissions of a user in a virtual host."""
    vhost, user = request.values["vhost"], request.values["user"]
    grant = _definition(request, user).grants.get(vhost)
    if grant is None or vhost not in request.services.accounts.definitions.vhosts:
        raise not_found()
    row = {"user": user, "vhost": vhost, **grant._asdict()}
    return ManagementReply(200, of_object(row, columns_of(request.query)))


async def put(request: ManagementRequest) -> ManagementReply:
    """Set the permissions of a user in a virtual host: 201 if there were none, else 204."""
    document = json_object(request.body)
    texts = _texts(document, "configure", "write", "read")
    vhost, user = _existing(request)
    is_new = vhost not in _definition(request, user).grants
    await request.services.operations.call(request.caller, SetPermission(user, vhost, *texts))
    return ManagementReply(201 if is_new else 204)


async def delete(request: ManagementRequest) -> ManagementReply:
    """Clear the permissions of a user in a virtual host."""
    vhost, user = request.values["vhost"], request.values["user"]
    return await _cleared(request, ClearPermission(user, vhost))


async def topic_permissions(request: ManagementRequest) -> ManagementReply:
    """Answer the topic permissions of all users."""
    return await _listed(request, _granted_on_topics(request))


async def topic_permissions_in(request: ManagementRequest, vhost: str) -> ManagementReply:
    """Answer the topic permissions of all users in a virtual host."""
    rows = (row for row in _granted_on_topics(request) if row["vhost"] == vhost)
    return await _listed(request, rows)


async def topic_permissions_of(request: ManagementRequest, user: str) -> ManagementReply:
    """Answer the topic permissions of a user."""
    rows = (row for row in _granted_on_topics(request) if row["user"] == user)
    return await _listed(request, rows)


async def topic_permissions_of_one(request: ManagementRequest) -> ManagementReply:
    """Answer the topic permissions of a user in a virtual host; 404 without any."""
    place = request.values["vhost"], request.values["user"]
    rows = [row for row in _granted_on_topics(request) if (row["vhost"], row["user"]) == place]
    if not rows:
        raise not_found()
    return await _listed(request, rows)


async def put_topic(request: ManagementRequest) -> ManagementReply:
    """Set a user's permissions on routing keys of an exchange: 201 if there were none, else 204."""
    exchange, *texts = _texts(json_object(request.body), "exchange", "write", "read")
    vhost, user = _existing(request)
    exchange = exchange_named(exchange)
    is_new = (vhost, exchange) not in _definition(request, user).topic_grants
    wanted = SetTopicPermission(user, vhost, exchange, *texts)
    await request.services.operations.call(request.caller, wanted)
    return ManagementReply(201 if is_new else 204)


async def delete_topic(request: ManagementRequest) -> ManagementReply:
    """Clear a user's topic permissions in a virtual host: all, or those on one exchange."""
    vhost, user = request.values["vhost"], request.values["user"]
    exchange = request.values.get("exchange")
    named = None if exchange is None else exchange_named(exchange)
    return await _cleared(request, ClearTopicPermission(user, vhost, named))


async def _cleared(request: ManagementRequest, wanted: Arguments[None]) -> ManagementReply:
    try:
        await request.services.operations.call(request.caller, wanted)
    except ApiError as error:
        if error.code is ErrorCode.RESOURCE_NOT_FOUND:
            raise not_found() from None
        raise
    return ManagementReply(204)


async def _listed(request: ManagementRequest, rows: Iterable[_Row]) -> ManagementReply:
    return await listed(list(rows), request.query, Listed(_NAME, _order, itself))


def _order(row: _Row) -> tuple[object, ...]:
    return row["vhost"], row["user"], row.get("exchange", "")


def _granted(request: ManagementRequest) -> Iterator[_Row]:
    definitions = request.services.accounts.definitions
    for user, definition in definitions.users.items():
        for vhost, grant in definition.grants.items():
            if vhost in definitions.vhosts:
                yield {"user": user, "vhost": vhost, **grant._asdict()}


def _granted_on_topics(request: ManagementRequest) -> Iterator[_Row]:
    for user, definition in request.services.accounts.definitions.users.items():
        for (vhost, exchange), grant in definition.topic_grants.items():
            yield {"user": user, "vhost": vhost, "exchange": exchange, **grant._asdict()}


def _texts(document: Mapping[str, object], *keys: str) -> list[str]:
    """Return the strings of a JSON object. Raises ManagementError."""
    values = required(document, *keys)
    for key, value in zip(keys, values, strict=True):
        if not isinstance(value, str):
            raise bad_request(f"{key} is no string")
    return values


def _existing(request: ManagementRequest) -> tuple[str, str]:
    """Return the virtual host and the user of the path, which must exist. ManagementError 400."""
    vhost, user = request.values["vhost"], request.values["user"]
    if vhost not in request.services.accounts.definitions.vhosts or not is_user(request, user):
        raise bad_request(_UNKNOWN)
    return vhost, user


def is_user(request: ManagementRequest, name: str) -> bool:
    """Return whether a user of this name has a definition or credentials."""
    services = request.services
    return name in services.accounts.definitions.users or bool(services.broker.users.of(name))


def _definition(request: ManagementRequest, user: str) -> UserDefinition:
    return request.services.accounts.definitions.users.get(user, UserDefinition())
