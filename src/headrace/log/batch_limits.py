"""A topic's limits on batches: size in bytes, and timestamps given by clients."""

from enum import Enum

from headrace.config.log_config import LogConfig
from headrace.model.errors import ApiError, ErrorCode
from headrace.record.batch import LOG_APPEND_TIME, BatchHeader
from headrace.record.batch_layout import ATTRIBUTES, BASE_TIMESTAMP, MAX_TIMESTAMP


class Origin(Enum):
    """The origin of a batch: limits on timestamps apply to batches of clients only."""

    CLIENT = "client"
    COORDINATOR = "coordinator"


def fits(config: LogConfig, size: int) -> bool:
    """Return whether a batch of `size` bytes is within max.message.bytes and segment.bytes."""
    return size <= config.max_message_bytes and size <= config.segment_bytes


def takes(config: LogConfig, size: int, header: BatchHeader, now_ms: int) -> bool:
    """Return whether a client's batch is within the topic's limits on size and on timestamps."""
    return (
        size <= config.max_message_bytes
        and size <= config.segment_bytes
        and header[MAX_TIMESTAMP] - now_ms <= config.message_timestamp_after_max_ms
        and now_ms - header[BASE_TIMESTAMP] <= config.message_timestamp_before_max_ms
        and not header[ATTRIBUTES] & LOG_APPEND_TIME
    )


def refuse(config: LogConfig, size: int, header: BatchHeader, now_ms: int) -> None:
    """Raise the ApiError for a batch that `takes` refused; return if only `takes` was too strict.

    MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE or INVALID_TIMESTAMP. A batch without timestamps (-1)
    is accepted.
    """
    if size > config.max_message_bytes:
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"batch of {size} bytes exceeds max.message.bytes={config.max_message_bytes}",
        )
    if size > config.segment_bytes:
        raise ApiError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"batch of {size} bytes exceeds segment.bytes={config.segment_bytes}",
        )
    if header.attributes & LOG_APPEND_TIME:
        raise ApiError(ErrorCode.INVALID_TIMESTAMP, "only the broker sets the LogAppendTime bit")
    ahead = header.max_timestamp - now_ms > config.message_timestamp_after_max_ms
    if header.base_timestamp < 0 and not ahead:
        return
    raise ApiError(
        ErrorCode.INVALID_TIMESTAMP,
        f"timestamps {header.base_timestamp} to {header.max_timestamp} ms are outside of the "
        f"topic's limits before and after the broker's time {now_ms} ms",
    )
