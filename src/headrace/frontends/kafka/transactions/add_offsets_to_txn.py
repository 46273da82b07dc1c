"""AddOffsetsToTxn (key 25, v0-v4): add a group's offsets to a transaction.

Equal to AddPartitionsToTxn with the group's partition of `__consumer_offsets`.

Versions: v2 PRODUCER_FENCED · v3 flexible · v4 TRANSACTION_ABORTABLE
"""

from headrace.coordination.transactions.producers import TV0
from headrace.frontends.kafka.authentication.authorisation import (
    READ_GROUP,
    WRITE_TRANSACTION,
    refusal,
)
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, maker
from headrace.frontends.kafka.transactions.transactional import code_for, producer_of, resolve
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import OFFSETS_TOPIC, TopicPartition
from headrace.net.pending import Pending

_FENCED_SINCE = 2


def handle(context: RequestContext, request: Entity) -> Entity:
    """Add a group's offsets partition; answer once the transaction's state is committed."""
    coordinators = context.coordinators
    if not request.transactional_id:
        return maker(context)(None, error_code=ErrorCode.INVALID_REQUEST)
    forbidden = refusal(context, WRITE_TRANSACTION, request.transactional_id)
    forbidden = forbidden or refusal(context, READ_GROUP, request.group_id)
    if forbidden is not None:
        return maker(context)(None, error_code=forbidden.code)
    pending = Pending()

    def added(error: ApiError | None) -> None:
        resolve(context, pending, error_code=code_for(context, error, _FENCED_SINCE))

    place = TopicPartition(OFFSETS_TOPIC, coordinators.groups.partition_for(request.group_id))
    coordinators.transactions.add(
        request.transactional_id, producer_of(request), [place], TV0, added
    )
    return pending
