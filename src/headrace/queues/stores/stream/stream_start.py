"""Where a stream's reader begins, by what it asked for. Blocking: for `Disk.run`."""

from typing import TYPE_CHECKING

from headrace.delivery.batches import stretches
from headrace.model.nouns import Offset

if TYPE_CHECKING:
    from headrace.log.log import Log


def offset_of_time(log: "Log", timestamp_ms: int, end: int) -> int:
    """Return the first offset not older than a time, by the log's time index; `end`: none is."""
    found = log.offset_for_time(timestamp_ms)
    return end if found is None else found[1]


def last_batch(log: "Log", end: int) -> int:
    """Return where the last batch below `end` begins that has messages; `end`: there is none."""
    at = end
    while at > log.start_offset:
        result = log.read_from_disk(Offset(at - 1), 1, below=Offset(end))
        aborted = log.aborted_transactions(log.start_offset, Offset(end))
        at -= 1
        for batch in stretches(result.data, log.start_offset, aborted):
            if batch.wanted:
                return batch.first
            if batch.begin < batch.end:  # a marker, or aborted: what lies before it
                at = min(at, batch.first)
    return end
