"""DescribeUserScramCredentials (key 50, v0): return users' mechanisms and iterations (KIP-554)."""

from collections import Counter

from headrace.frontends.kafka.authentication.authorisation import DESCRIBE_CLUSTER, refusal
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import (
    Entity,
    Make,
    error_fields,
    maker,
)
from headrace.model.errors import ApiError, ErrorCode
from headrace.security.sasl.scram import NUMBERS
from headrace.security.sasl.users import Users


def handle(context: RequestContext, request: Entity) -> Entity:
    """Answer with one result for each requested user; without names, for all with credentials."""
    make = maker(context)
    forbidden = refusal(context, DESCRIBE_CLUSTER)
    if forbidden is not None:
        return make(None, **error_fields(forbidden), results=())
    users = context.broker.users
    times = Counter(str(user.name) for user in request.users or ()) or Counter(users.names())
    results = tuple(_result(make, users, user, count) for user, count in times.items())
    return make(None, **error_fields(None), results=results)


def _result(make: Make, users: Users, user: str, count: int) -> Entity:
    credentials = users.of(user)
    refused = _refusal(user, count, known=bool(credentials))
    infos = tuple(
        make("CredentialInfo", mechanism=number, iterations=credentials[mechanism].iterations)
        for number, mechanism in NUMBERS.items()
        if refused is None and mechanism in credentials
    )
    return make(
        "DescribeUserScramCredentialsResult",
        user=user,
        credential_infos=infos,
        **error_fields(refused),
    )


def _refusal(user: str, count: int, *, known: bool) -> ApiError | None:
    if count > 1:
        return ApiError(
            ErrorCode.DUPLICATE_RESOURCE,
            "Cannot describe SCRAM credentials for the same user twice in a single request:"
            f" {user}",
        )
    if not known:
        return ApiError(
            ErrorCode.RESOURCE_NOT_FOUND,
            f"Attempt to describe a user credential that does not exist: {user}",
        )
    return None
