"""DescribeDelegationToken (key 41, v1-v3): return visible tokens with their HMACs (KIP-48).

v2 flexible · v3 the requester of a token (KIP-373)
"""

from headrace.frontends.kafka.authentication.authorisation import (
    DESCRIBE_TOKEN,
    DESCRIBE_TOKENS,
    permits,
)
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, Make, maker
from headrace.frontends.kafka.security.token_requests import check_may_ask, tokens_of
from headrace.model.errors import ApiError, ErrorCode
from headrace.security.identity import Principal
from headrace.security.sasl.delegation_tokens import DelegationToken


def handle(context: RequestContext, request: Entity) -> Entity:
    """Answer with the visible tokens of the requested owners (null: of all)."""
    make = maker(context)
    try:
        check_may_ask(context)
        tokens = tokens_of(context).tokens
    except ApiError as error:
        return make(None, error_code=error.code, tokens=())
    owners = request.owners
    wanted = None if owners is None else [
        Principal(str(owner.principal_type), str(owner.principal_name)) for owner in owners
    ]  # fmt: skip
    found = tuple(
        _described(make, token, tokens.hmac(token.token_id))
        for token in tokens
        if _asked_for(token, wanted) and _may_see(context, token)
    )
    return make(None, error_code=ErrorCode.NONE, tokens=found)


def _asked_for(token: DelegationToken, owners: list[Principal] | None) -> bool:
    return owners is None or any(token.is_about(owner) for owner in owners)


def _may_see(context: RequestContext, token: DelegationToken) -> bool:
    return (
        token.is_about(context.identity.principal)
        or permits(context, DESCRIBE_TOKEN, token.token_id, told=False)
        or permits(context, DESCRIBE_TOKENS, str(token.owner), told=False)
    )


def _described(make: Make, token: DelegationToken, hmac: bytes) -> Entity:
    return make(
        "DescribedDelegationToken",
        principal_type=token.owner.kind,
        principal_name=token.owner.name,
        token_requester_principal_type=token.requester.kind,
        token_requester_principal_name=token.requester.name,
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.max_ms,
        token_id=token.token_id,
        hmac=hmac,
        renewers=tuple(
            make(
                "DescribedDelegationTokenRenewer",
                principal_type=renewer.kind,
                principal_name=renewer.name,
            )
            for renewer in token.renewers
        ),
    )
