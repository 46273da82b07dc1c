"""The start offset of a stream's reader. Blocking: for `Disk.run`."""

from typing import TYPE_CHECKING

from headrace.delivery.batches import stretches
from headrace.model.nouns import Offset

if TYPE_CHECKING:
    from headrace.log.log import Log


def offset_of_time(log: "Log", timestamp_ms: int, end: int) -> int:
    """Return the first offset at or after a time by the log's time index; else `end`."""
    found = log.offset_for_time(timestamp_ms)
    return end if found is None else found[1]


def last_batch(log: "Log", end: int) -> int:
    """Return the first offset of the last batch below `end` with messages; else `end`."""
    at = end
    while at > log.start_offset:
        result = log.read_from_disk(Offset(at - 1), 1, below=Offset(end))
        aborted = log.aborted_transactions(log.start_offset, Offset(end))
        at -= 1
        for batch in stretches(result.data, log.start_offset, aborted):
            if batch.wanted:
                return batch.first
            if batch.begin < batch.end:  # a transaction marker or aborted: continue before it
                at = min(at, batch.first)
    return end
