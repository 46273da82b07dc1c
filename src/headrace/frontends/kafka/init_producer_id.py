"""InitProducerId (key 22, v0-v5): an id, and so exactly-once writing, for an idempotent producer.

* Always a new id with epoch 0, never given before, as Kafka does: a producer that brings its id and
  epoch (v3+, KIP-360) to go on after an error starts afresh, for nothing proves the id is its own.
  Idempotent producers raise their epoch by themselves; each partition refuses older ones.
* With a transactional id: UNSUPPORTED_VERSION, as FindCoordinator says for transactions: clients
  fail at once instead of retrying until their deadline.
v2 flexible · v3 epoch bump · v4 PRODUCER_FENCED · v5 TRANSACTION_ABORTABLE
"""

from headrace.frontends.kafka.entities import Entity, maker
from headrace.frontends.kafka.handler import Api, RequestContext
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import NO_PRODUCER_ID
from headrace.wire.kafka.api import ApiKey

NO_PRODUCER_EPOCH = -1


async def handle(context: RequestContext, request: Entity) -> Entity:
    """One id and epoch, or one error."""
    make = maker(context)
    try:
        producer_id, epoch = await _next(context, request)
        code = ErrorCode.NONE
    except ApiError as error:
        producer_id, epoch, code = NO_PRODUCER_ID, NO_PRODUCER_EPOCH, error.code
    return make(None, error_code=code, producer_id=producer_id, producer_epoch=epoch)


async def _next(context: RequestContext, request: Entity) -> tuple[int, int]:
    if request.transactional_id is not None:
        if not request.transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    former = getattr(request, "producer_id", NO_PRODUCER_ID)
    epoch = getattr(request, "producer_epoch", NO_PRODUCER_EPOCH)
    if (former == NO_PRODUCER_ID) != (epoch == NO_PRODUCER_EPOCH):
        raise ApiError(ErrorCode.INVALID_REQUEST)
    return await context.controller.next_producer_id(), 0


API = Api(ApiKey.INIT_PRODUCER_ID, 0, 5, handle)
