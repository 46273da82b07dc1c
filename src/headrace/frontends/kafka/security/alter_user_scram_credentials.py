"""AlterUserScramCredentials (key 51, v0): store salted SCRAM credentials (KIP-554)."""

from headrace.cluster.settings.user_settings import Deletion, Upsertion
from headrace.frontends.kafka.connection.handler import RequestContext, operating
from headrace.frontends.kafka.connection.response_entities import Entity, error_fields, maker
from headrace.operations.credentials import alter_credentials


async def handle(context: RequestContext, request: Entity) -> Entity:
    """Store or delete SCRAM credentials; answer with one result per user."""
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
    outcome = await alter_credentials(operating(context), deletions, upsertions)
    results = tuple(
        make("AlterUserScramCredentialsResult", user=user, **error_fields(error))
        for user, error in outcome.items()
    )
    return make(None, results=results)
