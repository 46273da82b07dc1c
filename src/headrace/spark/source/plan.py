"""From offsets to tasks, by arithmetic alone: the same numbers always give the same tasks.

A repeated batch must read what it read before, split as it was split before, whatever has become of
segments and leaders since: nothing here looks at anything but its arguments.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headrace.model.nouns import TopicPartition
from headrace.spark.source.offsets import Ends


class OffsetRange(NamedTuple):
    """Offsets of one partition from `begin` until before `end`."""

    topic: str
    partition: int
    begin: int
    end: int

    @property
    def place(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        """Offsets in the range: at least as many as records."""
        return self.end - self.begin


def backlog(begin: Ends, latest: Ends) -> Ends:
    """Return how far each partition of `latest` is behind; those with nothing to read left out."""
    sizes = {partition: end - begin.get(partition, end) for partition, end in latest.items()}
    return {partition: size for partition, size in sizes.items() if size > 0}


def limit_rows(begin: Ends, latest: Ends, rows: int) -> Ends:
    """Return ends of a batch of about `rows` offsets, by backlog; each gets one at least.

    As Spark's connector does it: a share under one is rounded up, others down.
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
    """Return ends of a batch of about `bytes_max` bytes, shared out by backlog in bytes.

    `record_bytes`: what one offset of each partition weighs about. One offset each at least.
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
    """How ranges are cut into tasks: `minPartitions`, `max…PerPartition`. None: not asked for."""

    min_partitions: int | None = None
    max_records: int | None = None
    max_bytes: int | None = None
    """Of records as they are stored."""


def parts_of(
    ranges: Sequence[OffsetRange],
    splitting: Splitting,
    record_bytes: Mapping[TopicPartition, float] | None = None,
) -> dict[TopicPartition, int]:
    """Return into how many tasks each range is cut, where that is more than one.

    Larger ranges get more. `record_bytes` as in `limit_bytes`, where `max_bytes` is asked for.
    Together they may be fewer than asked where there are few offsets.
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
            # Rounded up: together never fewer than asked, where there are that many offsets.
            count = max(count, math.ceil(splitting.min_partitions * range_.size / total))
        if count > 1 and range_.size > 1:
            parts[range_.place] = min(count, range_.size)
    return parts


def split(ranges: Sequence[OffsetRange], parts: Mapping[TopicPartition, int]) -> list[OffsetRange]:
    """Return tasks: each range cut into as many equal parts as `parts` says, else one.

    What a checkpoint holds are `parts`: how they are cut must never change.
    """
    whole = sorted(range_ for range_ in ranges if range_.size > 0)
    return [task for range_ in whole for task in _cut_range(range_, parts.get(range_.place, 1))]


def _cut_range(whole: OffsetRange, count: int) -> list[OffsetRange]:
    cuts = [whole.begin + whole.size * part // count for part in range(count + 1)]
    return [whole._replace(begin=begin, end=end) for begin, end in itertools.pairwise(cuts)]
