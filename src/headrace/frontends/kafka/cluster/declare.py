"""Declare (key 20001, v0-v1): carry out commands that change declarations of vhosts led here.

- Headrace's own (ADR 76). Commands are carried out in their order, and answered together once they
  are committed and all brokers have applied them.
- Errors: of each command NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE,
  KAFKA_STORAGE_ERROR (the disk is almost full); UNSUPPORTED_VERSION without declarations.
"""

from typing import TYPE_CHECKING

from headrace.cluster.peers.peer_call import Fields
from headrace.frontends.kafka.cluster.answered import answered
from headrace.frontends.kafka.connection.handler import Answer, RequestContext
from headrace.model.errors import ErrorCode

if TYPE_CHECKING:
    from headrace.cluster.peers.peer_port import PeerPort


def handle(context: RequestContext, body: memoryview) -> Answer:
    """Answer Declare when the commands are carried out; later requests do not wait for it."""
    return answered(context, body, "brokerId", _commanded, _refused, alone=False)


async def _commanded(peers: "PeerPort", request: Fields) -> Fields:
    return await peers.declarations.commanded(request)


def _refused(code: ErrorCode) -> Fields:
    return {"errorCode": code, "answers": ()}
