"""DescribeTransactions (key 65, v0): return the state of transactions (KIP-664).

- Errors per id: TRANSACTIONAL_ID_NOT_FOUND, INVALID_REQUEST for an empty id, the coordinator's
  errors.
"""

from datetime import UTC, datetime, timedelta

from headrace.frontends.kafka.authentication.authorisation import (
    DESCRIBE_TOPIC,
    DESCRIBE_TRANSACTION,
    refused,
    require,
)
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, Make, maker
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import by_topic

_EPOCH = datetime.fromtimestamp(0, UTC)


def handle(context: RequestContext, request: Entity) -> Entity:
    """Answer DescribeTransactions with the state of each transactional id, or an error."""
    make = maker(context)
    states = tuple(
        _state(context, make, transactional_id) for transactional_id in request.transactional_ids
    )
    return make(None, transaction_states=states)


def _state(context: RequestContext, make: Make, transactional_id: str) -> Entity:
    try:
        require(context, DESCRIBE_TRANSACTION, transactional_id)
        found = context.coordinators.transactions.describe_transaction(transactional_id)
    except ApiError as error:
        return make(
            "TransactionState",
            error_code=error.code,
            transactional_id=transactional_id,
            transaction_state="",
            transaction_timeout=timedelta(0),
            transaction_start_time=_EPOCH,
            producer_id=0,
            producer_epoch=0,
            topics=(),
        )
    hidden = refused(context, DESCRIBE_TOPIC, (topic for topic, _ in found.partitions), told=False)
    topics = by_topic(place for place in found.partitions if place.topic not in hidden)
    return make(
        "TransactionState",
        error_code=ErrorCode.NONE,
        transactional_id=transactional_id,
        transaction_state=found.status,
        transaction_timeout=timedelta(milliseconds=found.timeout_ms),
        transaction_start_time=_EPOCH + timedelta(milliseconds=found.started_ms),
        producer_id=found.producer_id,
        producer_epoch=found.epoch,
        topics=tuple(
            make("TopicData", topic=topic, partitions=tuple(indexes))
            for topic, indexes in topics.items()
        ),
    )
