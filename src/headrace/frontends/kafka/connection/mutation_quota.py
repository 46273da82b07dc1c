"""The quota of topic changes by clients (controller_mutation_rate, KIP-599)."""

from datetime import timedelta
from typing import TYPE_CHECKING

from headrace.broker.quotas import QuotaKey
from headrace.frontends.kafka.connection.throttle import milliseconds

if TYPE_CHECKING:
    from headrace.broker.quotas import Mutations
    from headrace.frontends.kafka.connection.handler import RequestContext


def mutations(context: "RequestContext", strict_since: int) -> "Mutations":
    """Return the request's account of the quota; strict in versions with a quota error."""
    client, strict = context.client_id or "", context.version >= strict_since
    user = context.identity.principal.name
    return context.broker.quotas.mutations(user, client, strict=strict)


def throttled(context: "RequestContext", spent: "Mutations") -> timedelta:
    """Return the throttle time for the answer, and stop reading the connection for that time."""
    seconds = spent.wait_seconds()
    if seconds > 0:
        context.broker.quotas.throttled[QuotaKey.MUTATION] += 1
        context.mute(seconds)
    return timedelta(milliseconds=milliseconds(seconds))
