"""How the topic of a durable queue is configured."""

from collections.abc import Mapping

from headrace.queues.queue_settings import QueueSettings, QueueType

SEGMENT_BYTES = 64 * 1024 * 1024
"""Of a queue's log: what is settled goes by whole segments."""
RECORD_BYTES_MAX = 20 * 1024 * 1024
"""The largest record of a queue: the largest message, and what its properties take."""
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
    """Return the configuration of a queue's topic.

    That of a stream has the retention it was given, and that of a queue which keeps what is
    settled.
    """
    if settings.queue_type is not QueueType.STREAM and not settings.keeps_settled:
        return _TOPIC_CONFIG
    retained_ms, retained_bytes = settings.retention_ms, settings.retention_bytes
    return {
        **_TOPIC_CONFIG,
        # Readers begin at a time, and messages go, by when the broker got them, as in RabbitMQ.
        "message.timestamp.type": "LogAppendTime",
        "retention.ms": _limited(retained_ms),
        # 0 would let go also what was just written.
        "retention.bytes": _limited(None if retained_bytes is None else max(retained_bytes, 1)),
        "segment.bytes": str(_segment_bytes(settings.segment_bytes_max)),
    }


def _limited(asked: int | None) -> str:
    """Return a bound as Kafka's settings take it; None: there is none."""
    return "-1" if asked is None else str(min(asked, _LONG_MAX))


def _segment_bytes(asked: int | None) -> int:
    """Return how large a stream's segment is: the largest message has to fit into one."""
    if asked is None:
        return SEGMENT_BYTES
    return min(max(asked, RECORD_BYTES_MAX), _SEGMENT_BYTES_MAX)
