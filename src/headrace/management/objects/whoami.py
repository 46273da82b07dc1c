"""The caller of a request, logins of RabbitMQ's pages, and hashes of passwords."""

from base64 import b64encode

from headrace.management.requests.errors import wrong_credentials
from headrace.management.requests.request import ManagementReply, ManagementRequest, RequestUser
from headrace.management.requests.tags import require_tag
from headrace.model.secret import Secret
from headrace.operations.tags import Tag
from headrace.vhosts.users.rabbit_hash import SALT_BYTES, salted_hash
from headrace.wire.http_targets import query_fields

_NOT_STORED = (("Cache-Control", "no-store"),)
"""For replies with a secret."""


async def whoami(request: ManagementRequest) -> ManagementReply:
    """Answer the caller's name and tags."""
    return ManagementReply(200, _user(request.user))


async def login(request: ManagementRequest) -> ManagementReply:
    """Answer a form with name and password by the user, and the header value for later requests.

    ManagementError: the body is no such form, or the password is wrong.
    """
    try:
        fields = query_fields(request.body.decode())
        name, password = fields["username"], fields["password"]
    except (ValueError, KeyError):
        raise wrong_credentials() from None
    user = await request.services.login(request.caller, name, Secret(password))
    require_tag(Tag.MANAGEMENT, user.tags)
    token = {"type": "basic", "value": b64encode(f"{name}:{password}".encode()).decode()}
    return ManagementReply(200, {"token": token, "user": _user(user)}, headers=_NOT_STORED)


async def logout(_: ManagementRequest) -> ManagementReply:
    """Answer that the client is logged out: nothing of a login is kept."""
    return ManagementReply(204)


async def hash_password(request: ManagementRequest) -> ManagementReply:
    """Answer a salted hash of the password in the path, for definitions."""
    salt = request.services.broker.random.uuid()[:SALT_BYTES]
    hashed = salted_hash(salt, Secret(request.values["password"]))
    return ManagementReply(200, {"ok": hashed}, headers=_NOT_STORED)


def _user(user: RequestUser) -> dict[str, object]:
    return {"is_internal_user": True, "name": user.name, "tags": list(user.tags)}
