"""NoteAlarm (key 20008, v0): note a memory or disk alarm of another broker with queues.

- Headrace's own (ADR 79): while a registered broker has an alarm, all of them block publishers.
- Errors: UNSUPPORTED_VERSION by a broker without queues.
"""

from typing import TYPE_CHECKING

from headrace.cluster.peers.peer_call import Fields
from headrace.frontends.kafka.cluster.answered import answered
from headrace.frontends.kafka.connection.handler import Answer, RequestContext
from headrace.model.errors import ErrorCode

if TYPE_CHECKING:
    from headrace.cluster.peers.peer_port import PeerPort


def handle(context: RequestContext, body: memoryview) -> Answer:
    """Answer NoteAlarm: this broker's publishers are blocked, or go on."""
    return answered(context, body, "brokerId", _noted, _refused)


async def _noted(peers: "PeerPort", request: Fields) -> Fields:
    peers.note_alarm(request)
    return {"errorCode": ErrorCode.NONE}


def _refused(code: ErrorCode) -> Fields:
    return {"errorCode": code}
