"""AddPartitionsToTxn (key 24, v0-v5): add partitions to a transaction.

- Answered when the change is committed in `__transaction_state`. While markers of the previous
  transaction are being written the request waits for them, at most a second.
- A partition that does not exist or may not be written has its error, and the others are not
  attempted. Internal topics are added by brokers only.
- From v4 on several transactions, and verification only: the form between brokers. It does not
  wait, as other requests wait behind it. Clients with transaction.version 2 need none of it: for
  Produce v12 the partition's leader sends this form.

Versions: v2 PRODUCER_FENCED · v3 flexible · v4 several · v5 TRANSACTION_ABORTABLE
"""

from collections.abc import Iterable
from functools import partial
from typing import Any

from headrace.coordination.transactions.producers import TV0, TV2, ProducerEpoch
from headrace.frontends.kafka.authentication.authorisation import (
    WRITE_TOPIC,
    WRITE_TRANSACTION,
    permits,
    refused,
)
from headrace.frontends.kafka.authentication.between_brokers import require_broker
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, Make, maker
from headrace.frontends.kafka.transactions.transactional import (
    code_for,
    producer_of,
    resolve,
)
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import INTERNAL_TOPICS, TopicPartition
from headrace.net.pending import Pending
from headrace.ports.callbacks import Done, gather

_FENCED_SINCE = 2
_SEVERAL_SINCE = 4
_ABORTABLE_SINCE = 5
Codes = dict[TopicPartition, ErrorCode]


def handle(context: RequestContext, request: Entity) -> Pending:
    """Answer AddPartitionsToTxn once the last transaction has its result."""
    pending = Pending()
    if context.version >= _SEVERAL_SINCE:
        require_broker(context)
        _several(context, request, pending)
        return pending
    topics = request.v3_and_below_topics
    who = ProducerEpoch(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)

    def done(codes: Codes) -> None:
        results = _results(maker(context), topics, codes)
        resolve(context, pending, results_by_topic_v3_and_below=results)

    transactional_id = request.v3_and_below_transactional_id
    if permits(context, WRITE_TRANSACTION, transactional_id):
        names = frozenset(topic.name for topic in topics)
        hidden = (names & INTERNAL_TOPICS) | refused(context, WRITE_TOPIC, names)
        _add(context, transactional_id, who, topics, done, hidden)
    else:
        failed = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        done(dict.fromkeys(_partitions(topics), failed))
    return pending


def _several(context: RequestContext, request: Entity, pending: Pending) -> None:
    def answer(found: dict[int, Codes]) -> None:
        make = maker(context)
        results = tuple(
            make(
                "AddPartitionsToTxnResult",
                transactional_id=transaction.transactional_id,
                topic_results=_results(make, transaction.topics, found[at]),
            )
            for at, transaction in enumerate(request.transactions)
        )
        resolve(context, pending, error_code=ErrorCode.NONE, results_by_transaction=results)

    done = gather(len(request.transactions), answer)
    for at, transaction in enumerate(request.transactions):
        if transaction.verify_only:
            _verify(context, transaction, partial(done, at))
        else:
            _add(
                context,
                transaction.transactional_id,
                producer_of(transaction),
                transaction.topics,
                partial(done, at),
            )


def _add(
    context: RequestContext,
    transactional_id: str,
    who: ProducerEpoch,
    topics: Iterable[Entity],
    done: Done[Codes],
    hidden: frozenset[str] = frozenset(),
) -> None:
    """Add all partitions to the transaction, and call `done` with a code for each.

    If one does not exist or its topic is in `hidden`, none is added.
    """
    partitions = _partitions(topics)
    if not transactional_id:
        done(dict.fromkeys(partitions, ErrorCode.INVALID_REQUEST))
        return
    image = context.broker.image.topics
    wrong: Codes = {}
    for partition in partitions:
        name, index = partition
        if name in hidden:
            wrong[partition] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif name not in image or not 0 <= index < len(image[name].partitions):
            wrong[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if wrong:
        done(dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED) | wrong)
        return

    def added(error: ApiError | None) -> None:
        done(dict.fromkeys(partitions, code_for(context, error, _FENCED_SINCE)))

    between_brokers = context.version >= _SEVERAL_SINCE
    version = TV2 if between_brokers else TV0
    context.coordinators.transactions.add(
        transactional_id, who, partitions, version, added, waits=not between_brokers
    )


def _verify(context: RequestContext, asked: Entity, done: Done[Codes]) -> None:
    partitions = _partitions(asked.topics)

    def code_of(error: ApiError | None) -> ErrorCode:
        if error is None:
            return ErrorCode.NONE
        abortable = context.version >= _ABORTABLE_SINCE
        refused = error.code is ErrorCode.INVALID_TXN_STATE and abortable
        return ErrorCode.TRANSACTION_ABORTABLE if refused else error.code

    def verified(refused: dict[TopicPartition, ApiError]) -> None:
        done({partition: code_of(refused.get(partition)) for partition in partitions})

    transactions = context.coordinators.transactions
    transactions.verify(asked.transactional_id, producer_of(asked), partitions, verified)


def _partitions(topics: Iterable[Entity]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, index) for topic in topics for index in topic.partitions]


def _results(make: Make, topics: Iterable[Entity], codes: Codes) -> tuple[Any, ...]:
    return tuple(
        make(
            "AddPartitionsToTxnTopicResult",
            name=topic.name,
            results_by_partition=tuple(
                make(
                    "AddPartitionsToTxnPartitionResult",
                    partition_index=index,
                    partition_error_code=codes[TopicPartition(topic.name, index)],
                )
                for index in topic.partitions
            ),
        )
        for topic in topics
    )
