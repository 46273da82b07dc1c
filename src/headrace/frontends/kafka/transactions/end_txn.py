"""EndTxn (key 26, v0-v5): commit or abort a transaction.

- Answered when the decision is committed in `__transaction_state`: it is final from then on. The
  markers follow, and consumers of committed data see the end with them.
- v5 (KIP-890) answers with the producer id and epoch of the next transaction, so that a late
  request of this transaction cannot change the next one.

Versions: v2 PRODUCER_FENCED · v3 flexible · v4 TRANSACTION_ABORTABLE · v5 epoch bump
"""

from headrace.coordination.transactions.producers import ProducerEpoch
from headrace.frontends.kafka.authentication.authorisation import WRITE_TRANSACTION, permits
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, maker
from headrace.frontends.kafka.transactions.transactional import (
    producer_of,
    resolve_producer,
    transaction_version,
)
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import NO_PRODUCER_ID
from headrace.net.pending import Pending

_FENCED_SINCE = 2
_BUMPS_SINCE = 5


def handle(context: RequestContext, request: Entity) -> Entity:
    """Commit or abort a transaction; answer EndTxn once the decision is committed."""
    code = ErrorCode.NONE
    if not request.transactional_id:
        code = ErrorCode.INVALID_REQUEST
    elif not permits(context, WRITE_TRANSACTION, request.transactional_id):
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if code is not ErrorCode.NONE:
        make = maker(context)
        return make(None, error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=-1)
    pending = Pending()

    def ended(result: ProducerEpoch | ApiError) -> None:
        resolve_producer(context, pending, result, _FENCED_SINCE)

    context.coordinators.transactions.end(
        request.transactional_id,
        producer_of(request),
        request.committed,
        transaction_version(context, _BUMPS_SINCE),
        ended,
    )
    return pending
