"""Fetch (key 1, v4-v18): return record batches unchanged, as the producers sent them.

- A consumer reads below the high watermark; with isolation level 1 below the last stable offset,
  with a list of aborted transactions (`fetch_in_hand`).
- A consumer with a rack is sent to a replica in that rack (`near_fetch`); followers serve consumers
  below the high watermark that they know.
- A follower (replica id >= 0) reads up to the log's end (`replica_fetch`). A client that claims to
  be one and is no broker of the cluster gets nothing.

v4 isolation · v5 log start offset · v7 sessions · v9 leader epoch · v12 flexible, diverging epoch ·
v13 topic ids · v15 replica state
"""

from headrace.frontends.kafka.authentication.between_brokers import may_be_replica
from headrace.frontends.kafka.connection.handler import Answer, RequestContext
from headrace.frontends.kafka.fetch.fetch_in_hand import FetchInHand
from headrace.frontends.kafka.fetch.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    FetchSession,
    wanted_of,
)
from headrace.model.errors import ApiError
from headrace.wire.kafka.hot.fetch import decode_request
from headrace.wire.kafka.hot.fetch_response import FetchResponse, encode_response


def handle(context: RequestContext, body: memoryview) -> Answer:
    """Answer a Fetch request of a consumer or a follower, at once or when enough records exist."""
    version = context.version
    request = decode_request(version, body)
    kind: type[FetchInHand] = FetchInHand
    throttle = None
    if request.replica_id >= 0:
        from headrace.frontends.kafka.fetch import replica_fetch

        if not may_be_replica(context, request.replica_id):
            return replica_fetch.refused(version, request)
        kind = replica_fetch.FollowersFetch
    else:
        if context.broker.quotas.active:
            throttle = context.throttle
        if request.rack_id:
            from headrace.frontends.kafka.fetch import near_fetch

            if near_fetch.is_wanted(context.broker.config, request.rack_id):
                kind = near_fetch.NearFetch
    sessions, owner = context.shared.fetch_sessions, context.identity.principal
    session: FetchSession | None = None
    if request.session_epoch == FINAL_EPOCH:
        sessions.close(request.session_id, request.replica_id, owner)
    elif request.session_epoch == INITIAL_EPOCH:
        session = sessions.open(version, request, owner)
    else:
        try:
            session = sessions.resume(version, request, owner)
        except ApiError as error:
            return encode_response(version, FetchResponse(error_code=error.code))
    wanted = wanted_of(version, request) if session is None else session.wanted
    fetch = kind(
        context.broker,
        context.shared,
        version,
        request,
        session,
        wanted,
        context.identity,
        throttle,
    )
    return fetch.begin()
