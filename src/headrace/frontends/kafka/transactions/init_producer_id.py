"""InitProducerId (key 22, v0-v6): return a producer's id and epoch, for exactly-once delivery.

- Without a transactional id the answer is a new producer id with epoch 0, as in Kafka. A producer
  that sends its id and epoch after an error (v3+, KIP-360) gets a new id, too, as nothing proves
  that the id is its own. Idempotent producers raise their epoch themselves; each partition refuses
  older ones.
- With a transactional id the answer is its producer id with the next epoch, so that the former
  producer is fenced. That producer's open transaction is aborted first, and the answer waits for
  it. Once the epochs are used up, the answer has a new producer id.
- With Enable2Pc (KIP-939) transactions never time out; with KeepPreparedTxn an open transaction
  stays open, and the answer has its producer. Both need TWO_PHASE_COMMIT on the id, and are refused
  with Kafka 4.3's errors unless transaction.two.phase.commit.enable is on.

Versions: v2 flexible · v3 epoch bump · v4 PRODUCER_FENCED · v5 TRANSACTION_ABORTABLE · v6 two-phase
commit
"""

from headrace.coordination.transactions.producers import ProducerEpoch
from headrace.frontends.kafka.authentication.authorisation import (
    IDEMPOTENT_WRITE,
    TWO_PHASE_TRANSACTION,
    WRITE_TOPIC,
    WRITE_TRANSACTION,
    permits,
    permits_any,
)
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, maker
from headrace.frontends.kafka.transactions.transactional import (
    NOBODY,
    code_for,
    resolve,
    resolve_producer,
)
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import NO_PRODUCER_ID
from headrace.net.pending import Pending

NO_PRODUCER_EPOCH = -1
_FENCED_SINCE = 4


async def _new(context: RequestContext) -> Entity:
    """Return the answer with a new id, for a producer without transactions."""
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


def _two_phase(request: Entity) -> tuple[bool, bool]:
    """Return the flags Enable2Pc and KeepPreparedTxn of a request."""
    return getattr(request, "enable2_pc", False), getattr(request, "keep_prepared_txn", False)


def _forbidden(context: RequestContext, request: Entity) -> ErrorCode | None:
    """Return the error for a client without permission for an id, or None."""
    transactional_id = request.transactional_id
    if transactional_id is not None:
        asks = [WRITE_TRANSACTION]
        if any(_two_phase(request)):
            asks.append(TWO_PHASE_TRANSACTION)
        if not all(permits(context, ask, transactional_id) for ask in asks):
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    # The audit line names the cluster's permission: no topic is known yet.
    elif not permits_any(context, WRITE_TOPIC) and not permits(context, IDEMPOTENT_WRITE):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return None


def handle(context: RequestContext, request: Entity) -> Entity:
    """Answer InitProducerId with a producer id and epoch, or an error."""
    refused = _forbidden(context, request)
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
    return _initialize(
        context, request, None if former == NO_PRODUCER_ID else ProducerEpoch(former, epoch)
    )


def _initialize(
    context: RequestContext, request: Entity, expected: ProducerEpoch | None
) -> Entity | Pending:
    two_phase, keep = _two_phase(request)
    transactions = context.coordinators.transactions
    if not transactions.limits.two_phase_commit:
        if two_phase:
            return _refused(context, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if keep:
            return _refused(context, ErrorCode.UNSUPPORTED_VERSION)
    pending = Pending()

    def done(result: ProducerEpoch | ApiError) -> None:
        resolve_producer(context, pending, result, _FENCED_SINCE)

    def kept(result: tuple[ProducerEpoch, ProducerEpoch | None] | ApiError) -> None:
        _resolve_kept(context, pending, result)

    timeout_ms = round(request.transaction_timeout.total_seconds() * 1000)
    asked = request.transactional_id, timeout_ms, expected
    if keep:
        transactions.keep_prepared(*asked, kept, two_phase=two_phase)
    else:
        transactions.initialize(*asked, done, two_phase=two_phase)
    return pending


def _resolve_kept(
    context: RequestContext,
    pending: Pending,
    result: tuple[ProducerEpoch, ProducerEpoch | None] | ApiError,
) -> None:
    """Answer with the producer's id and epoch, and the producer of a kept transaction."""
    if isinstance(result, ApiError):
        resolve_producer(context, pending, result, _FENCED_SINCE)
        return
    who, wrote = result[0], result[1] or NOBODY
    resolve(
        context,
        pending,
        error_code=code_for(context, None, _FENCED_SINCE),
        producer_id=who.producer_id,
        producer_epoch=who.epoch,
        ongoing_txn_producer_id=wrote.producer_id,
        ongoing_txn_producer_epoch=wrote.epoch,
    )
