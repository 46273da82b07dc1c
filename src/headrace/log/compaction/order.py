"""`job_of`: the job of a compaction, from settings and a log; `prepare` reads what it needs."""

from headrace.log.compaction.cleaner_settings import CleanerSettings
from headrace.log.compaction.job import Aborted, Job
from headrace.log.compaction.plan import Cleanable


def prepare(chosen: Cleanable) -> Aborted:
    """Return the aborted transactions in the compacted range; blocking.

    It also loads the old segments' indexes: a read that still uses such a segment after the swap
    must not load the new segment's index under the old name.
    """
    log = chosen.log
    old = [segment for segment in log.segments if segment.base_offset < chosen.upper]
    for segment in old:
        segment.load_indexes()
    found = log.aborted_transactions(old[0].base_offset, chosen.upper)
    return tuple(
        (
            transaction.producer_id,
            transaction.first_offset,
            transaction.last_offset,
            transaction.last_stable_offset,
        )
        for transaction in found
    )


def job_of(chosen: Cleanable, aborted: Aborted, settings: CleanerSettings, now_ms: int) -> Job:
    """Make the job from the log's present state. For the deciding thread."""
    log = chosen.log
    config = log.config
    return Job(
        directory=log.directory,
        partition=str(log.topic_partition),
        segments=tuple(
            (int(segment.base_offset), segment.size)
            for segment in log.segments
            if segment.base_offset < chosen.upper
        ),
        first_dirty=chosen.first_dirty,
        upper=chosen.upper,
        aborted=aborted,
        producers=tuple(
            (entry.producer_id, entry.last_offset, entry.producer_epoch)
            for entry in log.producers.kept.entries()
        ),
        now_ms=now_ms,
        delete_retention_ms=config.delete_retention_ms,
        segment_bytes=config.segment_bytes,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        map_bytes=settings.dedupe_buffer_bytes,
        load_factor=settings.load_factor,
        io_buffer_bytes=settings.io_buffer_bytes,
        io_bytes_per_second=settings.io_bytes_per_second,
        inflated_bytes_max=settings.inflated_bytes_max,
    )
