"""UpdateMetadata (key 6, v7-v8): receive from the controller the metadata that clients see.

- Partitions that are not named stay unchanged; the named live brokers replace the known ones.

Versions: v7 topic ids · v8 KRaft flag
"""

from typing import TYPE_CHECKING

from headrace.cluster.peers.peer_call import Fields
from headrace.frontends.kafka.cluster.answered import answered
from headrace.frontends.kafka.connection.handler import Answer, RequestContext
from headrace.model.errors import ErrorCode

if TYPE_CHECKING:
    from headrace.cluster.peers.peer_port import PeerPort


def handle(context: RequestContext, body: memoryview) -> Answer:
    """Answer UpdateMetadata once the metadata image has the change."""
    return answered(context, body, "controllerId", _carried_out, _refused)


async def _carried_out(peers: "PeerPort", request: Fields) -> Fields:
    await peers.show(request)
    return {"errorCode": ErrorCode.NONE}


def _refused(code: ErrorCode) -> Fields:
    return {"errorCode": code}
