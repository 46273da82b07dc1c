"""Answers to other brokers: the sender is checked, then the request executed and answered.

A request by another listener, without permission, or in the name of an unregistered broker is
answered CLUSTER_AUTHORIZATION_FAILED, and nothing is done (CVE-2018-1288).
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from headrace.cluster.peers.peer_call import Fields
from headrace.frontends.kafka.authentication.between_brokers import from_broker
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId
from headrace.net.pending import Pending
from headrace.posix.awaiting import called_back
from headrace.wire.kafka.peer_messages import PEER_MESSAGES

if TYPE_CHECKING:
    from headrace.cluster.peers.peer_port import PeerPort
    from headrace.remote_queues.leader.leader_requests import Answered
    from headrace.remote_queues.leader.queue_sessions import QueueSessions

Work = Callable[["PeerPort", Fields], Awaitable[Fields]]
"""Executes a request and returns the response's fields; raises ApiError to refuse it."""
Refused = Callable[[ErrorCode], Fields]
"""Makes the response that refuses a whole request with an error code."""

Ask = Callable[["QueueSessions", Fields, "Answered"], None]
"""Executes a request of another broker's queue session, and calls back with the response."""


def answered(
    context: RequestContext,
    body: memoryview,
    sender: str,
    work: Work,
    refused: Refused,
    *,
    alone: bool = True,
) -> Pending:
    """Execute a request from the broker named in the field `sender`; raise Malformed.

    `alone`: later requests on the connection wait for the answer.
    """
    version, messages = context.version, PEER_MESSAGES[context.api_key]
    request = messages.request.decode(body, version)
    peers = context.shared.peers if from_broker(context) else None
    pending = Pending(alone=alone)

    async def answer() -> None:
        try:
            if peers is None or not await peers.knows(BrokerId(request[sender])):
                fields = refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            else:
                fields = await work(peers, request)
        except ApiError as error:
            fields = refused(error.code)
        except Exception as error:  # noqa: BLE001 - the connection is told to end, and says why
            pending.fail(error)
            return
        pending.resolve(messages.response.encode(fields, version))

    context.shared.spawn(answer())
    return pending


def answered_back(context: RequestContext, body: memoryview, ask: Ask, refused: Refused) -> Pending:
    """Execute a frequent request about queues as `answered`, without a task if it can be done."""
    peers = context.shared.peers if from_broker(context) else None
    version, messages = context.version, PEER_MESSAGES[context.api_key]
    request = messages.request.decode(body, version)
    if peers is None or not peers.shows(BrokerId(request["brokerId"])):

        async def work(peers: "PeerPort", request: Fields) -> Fields:
            sessions = peers.queue_sessions_of(request["leaderEpoch"])
            return await called_back(partial(ask, sessions, request))

        return answered(context, body, "brokerId", work, refused)
    pending = Pending(alone=True)

    def done(fields: Fields | ApiError) -> None:
        try:
            found = refused(fields.code) if isinstance(fields, ApiError) else fields
            pending.resolve(messages.response.encode(found, version))
        except Exception as error:  # noqa: BLE001 - it ends this connection, not the caller's work
            pending.fail(error)

    try:
        ask(peers.queue_sessions_of(request["leaderEpoch"]), request, done)
    except ApiError as error:
        done(error)
    return pending
