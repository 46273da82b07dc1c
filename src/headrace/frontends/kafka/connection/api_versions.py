"""ApiVersions (key 18, v0-v4): return the APIs and versions that are served here.

- An unknown version is answered in v0 with UNSUPPORTED_VERSION and all served APIs (KIP-511).
- From v3 on a client sends the name and version of its software; names outside of KIP-511's pattern
  are answered with INVALID_REQUEST and no APIs, since they are used in logs and metrics.
- Produce is advertised from 0 though served from 3: librdkafka's compression depends on it
  (KAFKA-18659).
- Requests between brokers are advertised on the listeners for brokers only.
- The APIs of client metrics are always served, and advertised while there are subscriptions:
  otherwise every client would ask for its subscription in vain.
- InitProducerId v6 is advertised while transaction.two.phase.commit.enable is on (KIP-939): Kafka
  4.3 marks it unstable, and its additions are refused without that setting.
- Features are those of `FEATURES`, all of them finalized: clients use a newer protocol only then.
"""

import re
from collections.abc import Iterable

from headrace.frontends.kafka.connection.api import Api
from headrace.frontends.kafka.connection.handler import Answer, RequestContext
from headrace.frontends.kafka.connection.registry import PEER_APIS
from headrace.model.errors import ErrorCode
from headrace.wire.kafka.api import ADVERTISED_FROM, UNSTABLE_FROM, ApiKey
from headrace.wire.kafka.hot.api_versions import (
    FLEXIBLE_FROM,
    ApiRange,
    ApiVersionsResponse,
    FinalizedFeature,
    SupportedFeature,
    decode_request,
    encode_response,
)

FEATURES: dict[str, int] = {
    "transaction.version": 2,  # KIP-890: each transaction has its own epoch
    "group.version": 1,  # KIP-848's groups
    "share.version": 1,  # KIP-932: share groups
}
"""Kafka's features that are supported, from level 0 (off) to the one level here."""
_FEATURES_EPOCH = 0
"""Epoch of the finalized features, which do not change while a broker runs."""
_SUPPORTED = [SupportedFeature(name, 0, level) for name, level in FEATURES.items()]
_FINALIZED = [FinalizedFeature(name, level, level) for name, level in FEATURES.items()]

_is_valid = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?").fullmatch
"""Matches valid names and versions of client software (KIP-511)."""

_OF_TELEMETRY = frozenset({ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY})


def ranges(apis: Iterable[Api], *, unstable: bool = False) -> list[ApiRange]:
    """Return the advertised versions of APIs, in the order of their keys.

    `unstable` includes the versions of `UNSTABLE_FROM`.
    """
    found = []
    for api in apis:
        highest = api.max_version
        if not unstable and api.key in UNSTABLE_FROM:
            highest = min(highest, UNSTABLE_FROM[api.key] - 1)
        found.append(ApiRange(api.key, ADVERTISED_FROM.get(api.key, api.min_version), highest))
    return sorted(found)


def unsupported(apis: Iterable[Api]) -> bytes:
    """Return the body in v0 for an unknown version of ApiVersions."""
    return encode_response(0, ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, ranges(apis)))


def handle(context: RequestContext, body: memoryview) -> Answer:
    """Answer ApiVersions with the APIs and features that this listener serves."""
    request = decode_request(context.version, body)
    if context.version >= FLEXIBLE_FROM:
        if not all(map(_is_valid, request)):
            context.broker.metrics.api(ApiKey.API_VERSIONS).failed(ErrorCode.INVALID_REQUEST)
            return encode_response(context.version, ApiVersionsResponse(ErrorCode.INVALID_REQUEST))
        context.client_software = request
    apis = context.shared.apis
    if context.identity.listener in (context.shared.broker_listeners or ()):
        apis = (*apis, *PEER_APIS)
    if not context.broker.metrics_subscriptions.texts:
        apis = tuple(api for api in apis if api.key not in _OF_TELEMETRY)
    response = ApiVersionsResponse(
        0,
        ranges(apis, unstable=context.broker.config.transaction_two_phase_commit_enable),
        supported=_SUPPORTED,
        finalized_epoch=_FEATURES_EPOCH,
        finalized=_FINALIZED,
    )
    return encode_response(context.version, response)
