"""Which batches a topic takes: by their size, and by the times their clients gave them."""

from enum import Enum

from headrace.config.log_config import LogConfig
from headrace.model.errors import ApiError, ErrorCode
from headrace.record.batch import LOG_APPEND_TIME, BatchHeader
from headrace.record.batch_layout import ATTRIBUTES, BASE_TIMESTAMP, MAX_TIMESTAMP


class Origin(Enum):
    """Whose batch it is: decides which of the topic's limits are asked."""

    CLIENT = "client"
    COORDINATOR = "coordinator"


def fits(config: LogConfig, size: int) -> bool:
    """Tell whether a batch of `size` bytes is small enough for the topic."""
    return size <= config.max_message_bytes and size <= config.segment_bytes


def takes(config: LogConfig, size: int, header: BatchHeader, now_ms: int) -> bool:
    """Tell whether the topic takes a client's batch whose timestamps stay as they are."""
    return (
        size <= config.max_message_bytes
        and size <= config.segment_bytes
        and header[MAX_TIMESTAMP] - now_ms <= config.message_timestamp_after_max_ms
        and now_ms - header[BASE_TIMESTAMP] <= config.message_timestamp_before_max_ms
        and not header[ATTRIBUTES] & LOG_APPEND_TIME
    )


def refuse(config: LogConfig, size: int, header: BatchHeader, now_ms: int) -> None:
    """Raise why `takes` said no: MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, INVALID_TIMESTAMP.

    None where there is nothing to be out of bounds: a batch without timestamps (-1) is taken.
    """
    if size > config.max_message_bytes:
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {size} bytes, max.message.bytes is {config.max_message_bytes}",
        )
    if size > config.segment_bytes:
        raise ApiError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"a batch of {size} bytes, segment.bytes is {config.segment_bytes}",
        )
    if header.attributes & LOG_APPEND_TIME:
        raise ApiError(ErrorCode.INVALID_TIMESTAMP, "only the broker sets the LogAppendTime bit")
    ahead = header.max_timestamp - now_ms > config.message_timestamp_after_max_ms
    if header.base_timestamp < 0 and not ahead:
        return
    raise ApiError(
        ErrorCode.INVALID_TIMESTAMP,
        f"timestamps {header.base_timestamp} to {header.max_timestamp} are out of the "
        f"topic's bounds at {now_ms}",
    )
