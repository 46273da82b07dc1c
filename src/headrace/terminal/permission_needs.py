"""Permissions that a command needs: a refusal names the missing one and the ACL that grants it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from shlex import quote
from typing import Literal, NamedTuple

from headrace.client.client import Client
from headrace.model.errors import ApiError, ErrorCode


class Need(NamedTuple):
    """A permission: an operation on a resource."""

    operation: Literal["read", "write"]
    resource: Literal["topic", "group"]
    name: str


_RESOURCES = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "group",
    # InitProducerId needs the permission to write to any topic (KIP-679).
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "topic",
}


@contextmanager
def needing(client: Client, needs: Sequence[Need]) -> Iterator[None]:
    """Make authorization errors name the missing permission and the command that grants it."""
    try:
        yield
    except ApiError as error:
        kind = _RESOURCES.get(error.code)
        of_kind = [need for need in needs if need.resource == kind]
        if not of_kind:
            raise
        said = error.message or ""
        named = [need for need in of_kind if need.name in said] or of_kind
        raise ApiError(error.code, _sentence(client, named[0])) from None


def _sentence(client: Client, need: Need) -> str:
    user = client.credentials.user if client.credentials is not None else ""
    principal = quote(f"User:{user or 'NAME'}")
    who = f"user {user}" if user else "this client"
    return (
        f"{who} has no {need.operation} permission on {need.resource} {need.name}; an"
        f" administrator can grant it: headrace acl create --allow-principal {principal}"
        f" --operation {need.operation} --{need.resource} {quote(need.name)}"
    )
