"""AllocateProducerIds (key 67, v0): allocate a block of producer ids to a broker.

- An id is allocated once in the whole cluster. Errors: NOT_CONTROLLER, STALE_BROKER_EPOCH.
"""

from typing import TYPE_CHECKING

from headrace.cluster.peers.peer_call import Fields
from headrace.frontends.kafka.cluster.answered import answered
from headrace.frontends.kafka.connection.handler import Answer, RequestContext
from headrace.model.errors import ErrorCode
from headrace.model.nouns import BrokerId

if TYPE_CHECKING:
    from headrace.cluster.peers.peer_port import PeerPort


def handle(context: RequestContext, body: memoryview) -> Answer:
    """Answer AllocateProducerIds once the block is reserved in the metadata store."""
    return answered(context, body, "brokerId", _allocated, _refused)


async def _allocated(peers: "PeerPort", request: Fields) -> Fields:
    block = await peers.allocate_producer_ids(BrokerId(request["brokerId"]), request["brokerEpoch"])
    return _answer(ErrorCode.NONE, block.first, block.last - block.first + 1)


def _refused(code: ErrorCode) -> Fields:
    return _answer(code, 0, 0)


def _answer(code: ErrorCode, first: int, count: int) -> Fields:
    return {
        "throttleTimeMs": 0,
        "errorCode": code,
        "producerIdStart": first,
        "producerIdLen": count,
    }
