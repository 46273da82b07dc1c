"""Common code of the transactions' APIs: producers, error codes, answers."""

from headrace.coordination.transactions.producers import NO_EPOCH, TV0, TV2, ProducerEpoch
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, maker
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import NO_PRODUCER_ID
from headrace.net.pending import Pending
from headrace.wire.kafka import kio_codec

NOBODY = ProducerEpoch(NO_PRODUCER_ID, NO_EPOCH)


def producer_of(request: Entity) -> ProducerEpoch:
    """Return the producer id and epoch that a request names."""
    return ProducerEpoch(request.producer_id, request.producer_epoch)


def transaction_version(context: RequestContext, bumps_since: int) -> int:
    """Return the client's transaction version, by the version of its request (KIP-890)."""
    return TV2 if context.version >= bumps_since else TV0


def code_for(context: RequestContext, error: ApiError | None, fenced_since: int) -> ErrorCode:
    """Return the error code for the request's version: older ones do not know PRODUCER_FENCED."""
    if error is None:
        return ErrorCode.NONE
    if error.code is ErrorCode.PRODUCER_FENCED and context.version < fenced_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error.code


def resolve(context: RequestContext, pending: Pending, **fields: object) -> None:
    """Send the answer of a transactional API, unless the client has disconnected."""
    if not pending.done:
        pending.resolve(kio_codec.encode_body(maker(context)(None, **fields)))


def resolve_producer(
    context: RequestContext,
    pending: Pending,
    result: ProducerEpoch | ApiError,
    fenced_since: int,
) -> None:
    """Answer with the producer's new id and epoch, or with an error."""
    if isinstance(result, ApiError):
        who, code = NOBODY, code_for(context, result, fenced_since)
    else:
        who, code = result, ErrorCode.NONE
    resolve(
        context, pending, error_code=code, producer_id=who.producer_id, producer_epoch=who.epoch
    )
