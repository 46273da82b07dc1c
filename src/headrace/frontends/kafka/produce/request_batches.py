"""The batches of a Produce request: their partitions, and those that need checks."""

from typing import TYPE_CHECKING

from headrace.coordination.transactions.producers import ProducerEpoch
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.produce import record_validation
from headrace.frontends.kafka.produce.transaction_begin import First
from headrace.model.errors import ApiError
from headrace.record.batch import TRANSACTIONAL, check_produced
from headrace.wire.kafka.hot.produce import (
    TOPIC_IDS_FROM,
    PartitionData,
    ProduceRequest,
    TopicData,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.broker.partition import Partition


def first_ones(context: RequestContext, request: ProduceRequest) -> "Iterator[First]":
    """Yield sound transactional batches whose producer has no open transaction there."""
    for topic_at, topic in enumerate(request.topics):
        for at, data in enumerate(topic.partitions):
            try:
                partition = partition_of(context, topic, data.partition)
                header = check_produced(view_of(data), context.version)
            except ApiError:
                continue  # answered when it is appended
            who = ProducerEpoch(header.producer_id, header.producer_epoch)
            if header.attributes & TRANSACTIONAL and not partition.log.producers.is_open(*who):
                yield First((topic_at, at), partition.topic_partition, who)


def to_check(
    context: RequestContext, request: ProduceRequest
) -> "Iterator[tuple[record_validation.Place, memoryview, record_validation.Task]]":
    """Yield (place in the request, batch, task) of sound batches whose records must be checked."""
    for topic_at, topic in enumerate(request.topics):
        for at, data in enumerate(topic.partitions):
            try:
                partition = partition_of(context, topic, data.partition)
                if not partition.inspected:
                    continue
                view = view_of(data)
                task = record_validation.task_of(partition, check_produced(view, context.version))
            except ApiError:
                continue  # answered when it is appended
            if task is not None:
                yield (topic_at, at), view, task


def partition_of(context: RequestContext, topic: TopicData, index: int) -> "Partition":
    """Return the partition of a request's topic and index; raise ApiError."""
    if context.version >= TOPIC_IDS_FROM:
        return context.broker.partition_by_id(topic.topic_id, index)
    return context.broker.partition(topic.name, index)


def view_of(data: PartitionData) -> memoryview:
    """Return a partition's batch in a Produce request; empty if it has none."""
    records = data.records
    return records if isinstance(records, memoryview) else memoryview(records or b"")
