"""AddOffsetsToTxn (key 25, v0-v4): a transaction will commit offsets of a group.

The same as AddPartitionsToTxn, for the partition of `__consumer_offsets` that the group lives in.
v2 PRODUCER_FENCED · v3 flexible · v4 TRANSACTION_ABORTABLE
"""

from headrace.broker.txn.state import TV0
from headrace.frontends.kafka.entities import Entity, maker
from headrace.frontends.kafka.handler import Api, RequestContext
from headrace.frontends.kafka.transactional import code_for, producer_of, resolve
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import OFFSETS_TOPIC, TopicPartition
from headrace.net.pending import Pending
from headrace.wire.kafka.api import ApiKey

_FENCED_SINCE = 2


def handle(context: RequestContext, request: Entity) -> Entity:
    """Answer when it is committed."""
    broker = context.broker
    if not request.transactional_id:
        return maker(context)(None, error_code=ErrorCode.INVALID_REQUEST)
    pending = Pending()

    def added(error: ApiError | None) -> None:
        resolve(context, pending, error_code=code_for(context, error, _FENCED_SINCE))

    place = TopicPartition(OFFSETS_TOPIC, broker.groups.partition_for(request.group_id))
    broker.transactions.add(request.transactional_id, producer_of(request), [place], TV0, added)
    return pending


API = Api(
    ApiKey.ADD_OFFSETS_TO_TXN,
    0,
    4,
    handle,
    proof="tests/unit/test_txn_frontend.py::test_offsets_count_if_their_transaction_commits",
)
