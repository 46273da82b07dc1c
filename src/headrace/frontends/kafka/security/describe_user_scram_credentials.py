"""DescribeUserScramCredentials (key 50, v0): nobody has any (KIP-554)."""

from collections import Counter

from headrace.frontends.kafka.connection.authorisation import DESCRIBE_CLUSTER, refusal
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, error_fields, maker
from headrace.model.errors import ApiError, ErrorCode


def handle(context: RequestContext, request: Entity) -> Entity:
    """Answer with one result for each user asked for; none where all are."""
    make = maker(context)
    forbidden = refusal(context, DESCRIBE_CLUSTER)
    if forbidden is not None:
        return make(None, **error_fields(forbidden), results=())
    times = Counter(str(user.name) for user in request.users or ())
    results = tuple(
        make(
            "DescribeUserScramCredentialsResult",
            user=user,
            credential_infos=(),
            **error_fields(_refusal(user, count)),
        )
        for user, count in times.items()
    )
    return make(None, **error_fields(None), results=results)


def _refusal(user: str, count: int) -> ApiError:
    if count > 1:
        return ApiError(
            ErrorCode.DUPLICATE_RESOURCE,
            "Cannot describe SCRAM credentials for the same user twice in a single request:"
            f" {user}",
        )
    return ApiError(
        ErrorCode.RESOURCE_NOT_FOUND,
        f"Attempt to describe a user credential that does not exist: {user}",
    )
