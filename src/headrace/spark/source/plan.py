"""Split offsets into tasks, by arithmetic alone: equal inputs always give equal tasks.

A repeated batch must read the same offsets with the same split, whatever has changed on the brokers
since. So these functions depend on their arguments only.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headrace.model.nouns import TopicPartition
from headrace.spark.source.offsets import Ends


class OffsetRange(NamedTuple):
    """Offsets of one partition from `begin` to `end`, exclusive."""

    topic: str
    partition: int
    begin: int
    end: int

    @property
    def place(self) -> TopicPartition:
        """The partition of the range."""
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        """Number of offsets in the range, at least the number of records."""
        return self.end - self.begin


def backlog(begin: Ends, latest: Ends) -> Ends:
    """Return how many offsets each partition is behind `latest`; 0 is left out."""
    sizes = {partition: end - begin.get(partition, end) for partition, end in latest.items()}
    return {partition: size for partition, size in sizes.items() if size > 0}


def limit_rows(begin: Ends, latest: Ends, rows: int) -> Ends:
    """Return end offsets for a batch of about `rows` offsets, shared in proportion to backlog.

    As in Spark's connector, a share below one is rounded up and others down, so each partition
    advances.
    """
    behind = backlog(begin, latest)
    total = sum(behind.values())
    if total <= rows:
        return dict(latest)
    return _cut(
        begin, latest, {partition: rows * size / total for partition, size in behind.items()}
    )


def limit_bytes(
    begin: Ends, latest: Ends, bytes_max: int, record_bytes: Mapping[TopicPartition, float]
) -> Ends:
    """Return end offsets for a batch of about `bytes_max` bytes, shared in proportion to backlog.

    `record_bytes`: approximate stored size of one offset, by partition. Each partition advances by
    at least one offset.
    """
    behind = backlog(begin, latest)
    weights = {partition: size * record_bytes[partition] for partition, size in behind.items()}
    total = sum(weights.values())
    if total <= bytes_max:
        return dict(latest)
    rows = {
        partition: bytes_max * weights[partition] / total / record_bytes[partition]
        for partition in behind
    }
    return _cut(begin, latest, rows)


def _cut(begin: Ends, latest: Ends, shares: Mapping[TopicPartition, float]) -> Ends:
    ends = dict(latest)
    for partition, share in shares.items():
        rows = math.ceil(share) if share < 1 else math.floor(share)
        ends[partition] = min(latest[partition], begin[partition] + rows)
    return ends


class Splitting(NamedTuple):
    """How ranges are split into tasks: `minPartitions`, `max…PerPartition`. None: not set."""

    min_partitions: int | None = None
    max_records: int | None = None
    max_bytes: int | None = None
    """Maximum stored bytes of a task."""


def parts_of(
    ranges: Sequence[OffsetRange],
    splitting: Splitting,
    record_bytes: Mapping[TopicPartition, float] | None = None,
) -> dict[TopicPartition, int]:
    """Return the number of tasks of each range that is split into more than one.

    Larger ranges get more tasks. `record_bytes` as in `limit_bytes`, needed for `max_bytes`. There
    may be fewer tasks than `min_partitions` if there are few offsets.
    """
    whole = [range_ for range_ in ranges if range_.size > 0]
    total = sum(range_.size for range_ in whole)
    parts = {}
    for range_ in whole:
        count = 1
        if splitting.max_records:
            count = math.ceil(range_.size / splitting.max_records)
        if splitting.max_bytes and record_bytes:
            stored = range_.size * record_bytes[range_.place]
            count = max(count, math.ceil(stored / splitting.max_bytes))
        if splitting.min_partitions and len(whole) < splitting.min_partitions:
            # Rounded up, so that the total is not below min_partitions if there are enough offsets.
            count = max(count, math.ceil(splitting.min_partitions * range_.size / total))
        if count > 1 and range_.size > 1:
            parts[range_.place] = min(count, range_.size)
    return parts


def split(ranges: Sequence[OffsetRange], parts: Mapping[TopicPartition, int]) -> list[OffsetRange]:
    """Split each range into `parts` equal tasks (default one) and return all tasks, sorted.

    Checkpoints store `parts` only, so this way of splitting must never change.
    """
    whole = sorted(range_ for range_ in ranges if range_.size > 0)
    return [task for range_ in whole for task in _cut_range(range_, parts.get(range_.place, 1))]


def _cut_range(whole: OffsetRange, count: int) -> list[OffsetRange]:
    cuts = [whole.begin + whole.size * part // count for part in range(count + 1)]
    return [whole._replace(begin=begin, end=end) for begin, end in itertools.pairwise(cuts)]
