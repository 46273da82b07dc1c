"""Whether the topics of a batch are still those that it was planned from.

Rows that fail a check have their record's partition and offset only, and the record is read again
from the topic. In a topic that was deleted and made again since, another record is there.
"""

from collections.abc import Iterable

from headrace.client.sync import run
from headrace.client.transport.port import ClientError
from headrace.model.errors import ApiError, ErrorCode
from headrace.spark.broker_errors import sink_error
from headrace.spark.errors import DataLossError
from headrace.spark.quarantine.options import SinkQuarantine
from headrace.spark.source.checkpoint import topic_ids_of_batch
from headrace.spark.source.offsets import id_of_text
from headrace.wire.kafka.primitives import NO_UUID


def check_planned_topics(
    options: SinkQuarantine, checkpoint: str, batch: int, topics: Iterable[str]
) -> None:
    """Raise DataLossError if one of the topics was deleted or made again since a batch was planned.

    Nothing is checked where the checkpoint or the brokers do not tell a topic's id. SinkError if
    the brokers refuse to answer, SinkAwayError if they are away.
    """
    planned = topic_ids_of_batch(checkpoint, batch)
    names = sorted(set(topics) & planned.keys())
    if not names:
        return
    with options.client() as client:
        try:
            known = run(client.metadata(names))
        except (ClientError, ApiError) as error:
            raise sink_error(error) from error
    for name in names:
        topic = known.topics[name]
        gone = topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if gone or topic.topic_id not in (NO_UUID, id_of_text(planned[name])):
            raise DataLossError(
                f"{name} was deleted since batch {batch} was planned, and with it the records whose"
                " rows fail a check; nothing of the batch is written"
            )
