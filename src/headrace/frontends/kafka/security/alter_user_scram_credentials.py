"""AlterUserScramCredentials (key 51, v0): store salted SCRAM credentials (KIP-554)."""

from typing import TYPE_CHECKING

from headrace.cluster.settings.user_settings import Deletion, Upsertion
from headrace.frontends.kafka.authentication.authorisation import ALTER_CLUSTER, refusal
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, error_fields, maker

if TYPE_CHECKING:
    from headrace.model.errors import ApiError


async def handle(context: RequestContext, request: Entity) -> Entity:
    """Answer with one result a user."""
    make = maker(context)
    deletions = [
        Deletion(str(deletion.name), int(deletion.mechanism)) for deletion in request.deletions
    ]
    upsertions = [
        Upsertion(
            str(upsertion.name),
            int(upsertion.mechanism),
            int(upsertion.iterations),
            bytes(upsertion.salt),
            bytes(upsertion.salted_password),
        )
        for upsertion in request.upsertions
    ]
    forbidden = refusal(context, ALTER_CLUSTER)
    if forbidden is not None:
        users = [deletion.user for deletion in deletions]
        users += [upsertion.user for upsertion in upsertions]
        outcome: dict[str, ApiError | None] = dict.fromkeys(users, forbidden)
    else:
        outcome = await context.controller.settings.users.alter(deletions, upsertions)
    results = tuple(
        make("AlterUserScramCredentialsResult", user=user, **error_fields(error))
        for user, error in outcome.items()
    )
    return make(None, results=results)
