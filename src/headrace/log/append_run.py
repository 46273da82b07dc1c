"""`append_run`: append several batches of one client to a log by one write."""

from headrace.log import batch_limits
from headrace.log.log import Log
from headrace.log.producers.kept_states import BATCHES_KEPT
from headrace.model.nouns import LeaderEpoch
from headrace.record.batch import BatchHeader, stamp
from headrace.record.batch_layout import LAST_OFFSET_DELTA, MAX_TIMESTAMP


def append_run(
    log: Log,
    batches: list[memoryview],
    headers: list[BatchHeader],
    leader_epoch: LeaderEpoch,
    now_ms: int,
) -> int:
    """Append a client's batches by one write, as `Log.append` would; return how many were appended.

    Stops before the first batch that needs more than a write: a refusal, a new segment, a stamped
    time. Batches not appended are unchanged; pass them to `Log.append`. All batches must have the
    same producer id, or none.
    """
    config = log.config
    active = log.segments.active
    if (
        log.context.failure is not None
        or log.cutting
        or config.message_timestamp_type == "LogAppendTime"
        or leader_epoch != log.epochs.latest
        or not active.room_for(len(batches))
    ):
        return 0
    size = 0
    last = log.end_offset - 1
    lasts: list[int] = []
    newest: list[int] = []
    for batch, header in zip(batches, headers, strict=True):
        length = len(batch)
        if not batch_limits.takes(config, length, header, now_ms):
            break
        size += length
        last += header[LAST_OFFSET_DELTA] + 1
        lasts.append(last)
        newest.append(header[MAX_TIMESTAMP])
    taken = len(lasts)
    if taken == 0 or active.should_roll(
        size, last, max(newest), config.segment_bytes, config.segment_ms
    ):
        return 0
    batches, headers = batches[:taken], headers[:taken]
    for batch, header, end in zip(batches, headers, lasts, strict=True):
        stamp(batch, end - header[LAST_OFFSET_DELTA], leader_epoch)
    try:
        active.append_run(batches, size, lasts, newest, config.index_interval_bytes)
    except OSError as error:
        log.append_failed(active, error)  # fenced: the caller's `Log.append` raises
        for batch in batches:
            stamp(batch, 0, leader_epoch)
        return 0
    if headers[0].producer_id >= 0:
        for header, end in zip(headers[-BATCHES_KEPT:], lasts[-BATCHES_KEPT:], strict=True):
            log.producers.update(header, end - header[LAST_OFFSET_DELTA], now_ms)
    log.ends_at(last + 1)
    return taken
