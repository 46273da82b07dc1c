"""DescribeProducers (key 61, v0): return a partition's producers and transactions (KIP-664)."""

from headrace.frontends.kafka.authentication.authorisation import READ_TOPIC, require
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, Make, maker
from headrace.model.errors import ApiError, ErrorCode


def handle(context: RequestContext, request: Entity) -> Entity:
    """Answer DescribeProducers with the producers of each partition, or an error."""
    make = maker(context)
    topics = tuple(
        make(
            "TopicResponse",
            name=topic.name,
            partitions=tuple(
                _partition(context, make, topic.name, index) for index in topic.partition_indexes
            ),
        )
        for topic in request.topics
    )
    return make(None, topics=topics)


def _partition(context: RequestContext, make: Make, topic: str, index: int) -> Entity:
    try:
        require(context, READ_TOPIC, topic)
        producers = context.broker.partition(topic, index).log.producers.kept.entries()
    except ApiError as error:
        return make(
            "PartitionResponse",
            partition_index=index,
            error_code=error.code,
            error_message=error.message,
            active_producers=(),
        )
    active = tuple(
        make(
            "ProducerState",
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            last_sequence=producer.last_sequence,
            last_timestamp=producer.timestamp,
            coordinator_epoch=producer.coordinator_epoch,
            current_txn_start_offset=producer.current_txn_first_offset,
        )
        for producer in producers
    )
    return make(
        "PartitionResponse",
        partition_index=index,
        error_code=ErrorCode.NONE,
        error_message=None,
        active_producers=active,
    )
