"""Ownership of group member ids: a principal that names another's member is refused.

The error is UNKNOWN_MEMBER_ID. With an authorizer that allows everything there is no check.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.frontends.kafka.connection.handler import RequestContext


def is_anothers(context: "RequestContext", group_id: str, member_id: str | None) -> bool:
    """Return whether the group member id belongs to another principal than the client's.

    False for an empty id, and if the authorizer allows everything.
    """
    if not member_id or context.broker.authorizer.allows_all:
        return False
    owners = context.coordinators.member_owners
    return owners.is_anothers((group_id, member_id), context.identity.principal)


def learn(context: "RequestContext", group_id: str, member_id: str) -> None:
    """Record the client's principal as the owner of a group member id."""
    if member_id and not context.broker.authorizer.allows_all:
        owners = context.coordinators.member_owners
        owners.learn((group_id, member_id), context.identity.principal)


def forget(context: "RequestContext", group_id: str, member_id: str) -> None:
    """Remove the recorded owner of a group member id, as the member has left."""
    if not context.broker.authorizer.allows_all:
        context.coordinators.member_owners.forget((group_id, member_id))
