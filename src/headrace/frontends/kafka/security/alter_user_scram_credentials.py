"""AlterUserScramCredentials (key 51, v0): refused: nobody could authenticate by them (KIP-554)."""

from headrace.frontends.kafka.connection.authorisation import ALTER_CLUSTER, refusal
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, error_fields, maker
from headrace.model.errors import ApiError, ErrorCode

_ABSENT = ApiError(
    ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
)
_USELESS = ApiError(
    ErrorCode.SECURITY_DISABLED, "no listener here authenticates: credentials are not kept"
)


def handle(context: RequestContext, request: Entity) -> Entity:
    """Answer with one result a user: there is nothing to delete, and nothing is kept."""
    make = maker(context)
    outcome = {str(deletion.name): _ABSENT for deletion in request.deletions}
    outcome.update((str(upsertion.name), _USELESS) for upsertion in request.upsertions)
    forbidden = refusal(context, ALTER_CLUSTER)
    results = tuple(
        make("AlterUserScramCredentialsResult", user=user, **error_fields(forbidden or error))
        for user, error in outcome.items()
    )
    return make(None, results=results)
