"""Users: lists, one user, creation, deletion and their permissions.

A user is a name with SCRAM credentials, as Kafka's clients have, or with a definition: tags, limits
and permissions. Passwords are stored as SCRAM credentials only (ADR 87).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from headrace.management.lists.columns import columns_of, of_object
from headrace.management.lists.listing import Listed, listed
from headrace.management.objects.listed_objects import itself, tags_of
from headrace.management.objects.permissions import is_user
from headrace.management.objects.permissions import permissions_of as granted
from headrace.management.objects.permissions import topic_permissions_of as granted_on_topics
from headrace.management.requests.errors import bad_request, not_authorised, not_found
from headrace.management.requests.request import (
    ManagementReply,
    ManagementRequest,
    json_object,
    required,
)
from headrace.model.errors import ApiError, ErrorCode
from headrace.operations.virtual_hosts import DeleteUser, PutUser
from headrace.queues.permissions.definitions import UserDefinition
from headrace.security.identity import USER, Principal
from headrace.vhosts.users.rabbit_hash import stored_hash

DEFAULT_ALGORITHM = "rabbit_password_hashing_sha256"
SCRAM_ALGORITHM = "headrace_scram_sha256"
"""Named for users whose password is stored as SCRAM credentials, which are not shown."""
BULK_MAX = 1000
_NO_DEFINITION = UserDefinition()


async def users(request: ManagementRequest) -> ManagementReply:
    """Answer all users."""
    return await _listed(request, _names(request))


async def users_without_permissions(request: ManagementRequest) -> ManagementReply:
    """Answer the users without permissions in any virtual host."""
    found = request.services.accounts.definitions.users
    names = [name for name in _names(request) if not found.get(name, _NO_DEFINITION).grants]
    return await _listed(request, names)


async def user(request: ManagementRequest) -> ManagementReply:
    """Answer one user."""
    row = _row(request, existing_user(request))
    return ManagementReply(200, of_object(row, columns_of(request.query)))


async def put(request: ManagementRequest) -> ManagementReply:
    """Create a user (201), or replace the tags and the password of one (204).

    As in RabbitMQ a user without a password and a hash cannot log in.
    """
    name, document = request.values["user"], json_object(request.body)
    if "password" in document and "password_hash" in document:
        raise bad_request("both_password_and_password_hash_are_provided")
    if "tags" not in document:
        raise bad_request("tags_not_present")
    _check_changeable(request, name)
    is_new = not is_user(request, name)
    tags = tags_of(document["tags"])
    wanted = _with_password(PutUser(name, tags=tags), document)
    await request.services.operations.call(request.caller, wanted)
    return ManagementReply(201 if is_new else 204)


async def delete(request: ManagementRequest) -> ManagementReply:
    """Delete a user with permissions, and close the user's connections."""
    name = existing_user(request)
    _check_changeable(request, name)
    if not await _deleted(request, name):
        raise not_found()
    return ManagementReply(204)


async def bulk_delete(request: ManagementRequest) -> ManagementReply:
    """Delete users; those that do not exist are ignored."""
    (names,) = required(json_object(request.body), "users")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise bad_request("users is no list of names")
    if len(names) > BULK_MAX:
        raise bad_request(f"at most {BULK_MAX} users can be deleted at once")
    for name in names:
        _check_changeable(request, name)
    for name in names:
        await _deleted(request, name)
    return ManagementReply(204)


async def permissions(request: ManagementRequest) -> ManagementReply:
    """Answer the permissions of a user in all virtual hosts."""
    return await granted(request, existing_user(request))


async def topic_permissions(request: ManagementRequest) -> ManagementReply:
    """Answer the topic permissions of a user in all virtual hosts."""
    return await granted_on_topics(request, existing_user(request))


def existing_user(request: ManagementRequest) -> str:
    """Return the user of the path. ManagementError 404 without one."""
    name = request.values["user"]
    if not is_user(request, name):
        raise not_found()
    return name


def limits_of(found: UserDefinition) -> dict[str, int]:
    """Return the limits of a user, without those that are not set."""
    limits = {"max-channels": found.channels_max, "max-connections": found.connections_max}
    return {name: value for name, value in limits.items() if value >= 0}


def _names(request: ManagementRequest) -> list[str]:
    services = request.services
    return sorted({*services.accounts.definitions.users, *services.broker.users.names()})


async def _listed(request: ManagementRequest, names: Sequence[str]) -> ManagementReply:
    how = Listed(itself, itself, partial(_row, request))
    return await listed(names, request.query, how)


def _row(request: ManagementRequest, name: str) -> Mapping[str, object]:
    services = request.services
    found = services.accounts.definitions.users.get(name, _NO_DEFINITION)
    algorithm, _, hashed = found.password_hash.partition(":")
    if services.broker.users.of(name):
        algorithm, hashed = SCRAM_ALGORITHM, ""
    return {
        "hashing_algorithm": algorithm or DEFAULT_ALGORITHM,
        "limits": limits_of(found),
        "name": name,
        "password_hash": hashed,
        "tags": list(found.tags),
    }


def _with_password(wanted: PutUser, document: Mapping[str, Any]) -> PutUser:
    """Return an operation with the password or the hash of a body. Raises ManagementError."""
    password, hashed = document.get("password", ""), document.get("password_hash", "")
    algorithm = document.get("hashing_algorithm", DEFAULT_ALGORITHM)
    if not all(isinstance(each, str) for each in (password, hashed, algorithm)):
        raise bad_request("password, password_hash and hashing_algorithm are strings")
    if not hashed:
        return replace(wanted, password=password)
    try:
        stored_hash(algorithm, hashed)
    except ValueError as error:
        reason = str(error)
        raise bad_request(["not_base64", hashed] if "base64" in reason else reason) from None
    return replace(wanted, hash=hashed, algorithm=algorithm)


def _check_changeable(request: ManagementRequest, name: str) -> None:
    """Raise ManagementError if only a super user may change this user: it is one itself.

    Otherwise a tag would be enough to have all rights of Kafka's protocol.
    """
    supers = request.services.accounts.super_users
    if Principal(USER, name) in supers and request.caller.identity.principal not in supers:
        raise not_authorised()


async def _deleted(request: ManagementRequest, name: str) -> bool:
    """Delete a user; return False if none of that name exists."""
    try:
        await request.services.operations.call(request.caller, DeleteUser(name))
    except ApiError as error:
        if error.code is not ErrorCode.RESOURCE_NOT_FOUND:
            raise
        return False
    return True
