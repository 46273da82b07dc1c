"""InitProducerId (key 22, v0-v5): who a producer is, for exactly-once writing.

* Without a transactional id always a new producer id with epoch 0, never given before, as Kafka
  does: a producer that brings its id and epoch (v3+, KIP-360) to go on after an error starts
  afresh, for nothing proves the id is its own. Idempotent producers raise their epoch by
  themselves; each partition refuses older ones.
* With one: the id's producer id with the next epoch, so that whoever had it before is fenced. What
  that one had open is aborted first, and the answer waits for it. Once the epochs are used up, a
  new producer id.
v2 flexible · v3 epoch bump · v4 PRODUCER_FENCED · v5 TRANSACTION_ABORTABLE
"""

from headrace.coordination.transactions.producers import ProducerEpoch
from headrace.frontends.kafka.connection.authorisation import (
    IDEMPOTENT_WRITE,
    WRITE_TOPIC,
    WRITE_TRANSACTION,
    permits,
    permits_any,
)
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, maker
from headrace.frontends.kafka.transactions.transactional import resolve_producer
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import NO_PRODUCER_ID
from headrace.net.pending import Pending

NO_PRODUCER_EPOCH = -1
_FENCED_SINCE = 4


async def _new(context: RequestContext) -> Entity:
    """Make an id for a producer without transactions."""
    try:
        producer_id, epoch = await context.controller.next_producer_id(), 0
        code = ErrorCode.NONE
    except ApiError as error:
        producer_id, epoch, code = NO_PRODUCER_ID, NO_PRODUCER_EPOCH, error.code
    return maker(context)(None, error_code=code, producer_id=producer_id, producer_epoch=epoch)


def _refused(context: RequestContext, code: ErrorCode) -> Entity:
    return maker(context)(
        None, error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH
    )


def _forbidden(context: RequestContext, transactional_id: str | None) -> ErrorCode | None:
    """Return why who asks may have no id; None where he may."""
    if transactional_id is not None:
        if not permits(context, WRITE_TRANSACTION, transactional_id):
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    elif not permits(context, IDEMPOTENT_WRITE) and not permits_any(context, WRITE_TOPIC):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return None


def handle(context: RequestContext, request: Entity) -> Entity:
    """Answer with one id and epoch, or one error."""
    refused = _forbidden(context, request.transactional_id)
    if refused is not None:
        return _refused(context, refused)
    former = getattr(request, "producer_id", NO_PRODUCER_ID)
    epoch = getattr(request, "producer_epoch", NO_PRODUCER_EPOCH)
    if (former == NO_PRODUCER_ID) != (epoch == NO_PRODUCER_EPOCH):
        return _refused(context, ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        return _new(context)
    if not request.transactional_id:
        return _refused(context, ErrorCode.INVALID_REQUEST)
    pending = Pending()

    def done(result: ProducerEpoch | ApiError) -> None:
        resolve_producer(context, pending, result, _FENCED_SINCE)

    context.coordinators.transactions.initialize(
        request.transactional_id,
        round(request.transaction_timeout.total_seconds() * 1000),
        None if former == NO_PRODUCER_ID else ProducerEpoch(former, epoch),
        done,
    )
    return pending
