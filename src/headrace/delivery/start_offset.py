"""`find_start`: the first offset of a share group without state, by share.auto.offset.reset."""

from typing import TYPE_CHECKING

from headrace.config.durations import BY_DURATION, EARLIEST, duration_ms
from headrace.model.errors import ApiError, ErrorCode
from headrace.ports.callbacks import Done

if TYPE_CHECKING:
    from headrace.broker.partition import Partition
    from headrace.model.nouns import LeaderEpoch, Offset
    from headrace.ports.disk import Disk


def find_start(
    partition: "Partition", strategy: str, now_ms: int, disk: "Disk", done: Done[int | ApiError]
) -> None:
    """Call `done` with the first offset for `strategy`; a search by timestamp runs on a thread."""
    if strategy == EARLIEST:
        done(partition.log_start_offset)
        return
    if not strategy.startswith(BY_DURATION):
        # Wait for the flush: records acknowledged with acks=1 may not be readable yet.
        partition.role.when_flushed(lambda error: done(error or partition.high_watermark))
        return
    try:
        since = now_ms - duration_ms(strategy.removeprefix(BY_DURATION))
    except ValueError as error:
        done(ApiError(ErrorCode.INVALID_CONFIG, f"share.auto.offset.reset: {error}"))
        return

    def searched(found: "tuple[int, Offset, LeaderEpoch] | BaseException | None") -> None:
        if isinstance(found, ApiError):
            done(found)
        elif isinstance(found, BaseException):
            done(ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(found)))
        elif found is None or found[1] >= partition.high_watermark:
            done(partition.high_watermark)
        else:
            done(found[1])

    disk.run(lambda: partition.log.offset_for_time(since), searched)
