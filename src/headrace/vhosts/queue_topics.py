"""The Kafka topic configuration of durable queues and streams."""

from collections.abc import Mapping

from headrace.queue_stores.queue_settings import QueueSettings, QueueType

SEGMENT_BYTES = 64 * 1024 * 1024
"""Segment size of a queue's log in bytes: settled messages are deleted by whole segments."""
RECORD_BYTES_MAX = 20 * 1024 * 1024
"""Largest record of a queue in bytes: the largest message with its properties."""
_SEGMENT_BYTES_MAX = (1 << 31) - 1
_LONG_MAX = (1 << 63) - 1

_TOPIC_CONFIG = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "max.message.bytes": str(RECORD_BYTES_MAX),
    "message.timestamp.type": "CreateTime",
    "min.insync.replicas": "1",
    "retention.bytes": "-1",
    "retention.ms": "-1",
    "segment.bytes": str(SEGMENT_BYTES),
}


def topic_config(settings: QueueSettings) -> Mapping[str, str]:
    """Return the topic configuration of a queue.

    Streams and queues that retain settled messages have the retention they were declared with;
    others retain messages until they are settled.
    """
    if settings.queue_type is not QueueType.STREAM and not settings.keeps_settled:
        return _TOPIC_CONFIG
    retained_ms, retained_bytes = settings.retention_ms, settings.retention_bytes
    return {
        **_TOPIC_CONFIG,
        # As in RabbitMQ, consumers' start times and retention go by the time of arrival.
        "message.timestamp.type": "LogAppendTime",
        "retention.ms": _limited(retained_ms),
        # 0 would also delete the newest records.
        "retention.bytes": _limited(None if retained_bytes is None else max(retained_bytes, 1)),
        "segment.bytes": str(_segment_bytes(settings.segment_bytes_max)),
    }


def _limited(asked: int | None) -> str:
    """Return a bound as a Kafka setting; None is written as -1, without a bound."""
    return "-1" if asked is None else str(min(asked, _LONG_MAX))


def _segment_bytes(asked: int | None) -> int:
    """Return a stream's segment size in bytes, at least the size of the largest record."""
    if asked is None:
        return SEGMENT_BYTES
    return min(max(asked, RECORD_BYTES_MAX), _SEGMENT_BYTES_MAX)
