"""Ends of leader epochs in the log of a queue."""

from typing import TYPE_CHECKING

from headrace.model.nouns import LeaderEpoch, Offset

if TYPE_CHECKING:
    from headrace.broker.partition import Partition


def end_of_epoch(partition: "Partition", epoch: LeaderEpoch) -> Offset:
    """Return the position below which a log has what the leaders up to an epoch wrote."""
    log = partition.log
    _, end = partition.end_offset_for_epoch(epoch)
    return log.end_offset if end < 0 else min(end, log.end_offset)
