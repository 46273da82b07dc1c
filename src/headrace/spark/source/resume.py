"""Where a micro-batch begins: how partitions changed since the previous batch.

Comparisons and arithmetic only; offsets from brokers come through callbacks.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from headrace.model.nouns import TopicPartition
from headrace.spark.errors import SourceError
from headrace.spark.source.offsets import Ends, Position, Skipped, topics_of
from headrace.spark.source.options import Strategy, Subscription


@dataclass
class Resumption:
    """Where the partitions of a micro-batch begin."""

    begin: Ends
    added: Ends
    """First offsets of partitions that do not continue at the previous batch's end."""
    skipped: Skipped = field(default_factory=dict)
    """Ranges that are skipped because they are older than the starting timestamp."""
    losses: list[str] = field(default_factory=list)
    """Descriptions of lost data, for an error or a warning."""
    dropped: list[TopicPartition] = field(default_factory=list)
    """Partitions of the checkpoint that the query no longer subscribes to."""


def refuse_another_origin(before: Position, latest: Position) -> None:
    """Raise SourceError if the checkpoint belongs to another cluster or to other topics.

    Another cluster id is accepted if all topics have the same ids: their directories were moved.
    """
    if before.cluster and latest.cluster and before.cluster != latest.cluster:
        same = before.ids and all(latest.ids.get(name) == id_ for name, id_ in before.ids.items())
        if not same:
            raise SourceError(
                f"the checkpoint is of cluster {before.cluster} and {latest.bootstrap} is cluster "
                f"{latest.cluster}: give the query a new checkpointLocation"
            )
    read, found = topics_of(before.offsets), topics_of(latest.offsets)
    if read and found and not set(read) & set(found):
        raise SourceError(
            f"the checkpoint is of {_names(read)} and the query reads {_names(found)}: "
            "give the query a new checkpointLocation"
        )


def _names(topics: list[str]) -> str:
    shown = ", ".join(topics[:_NAMES_SHOWN])
    return shown if len(topics) <= _NAMES_SHOWN else f"{shown} and others"


_NAMES_SHOWN = 5


def resume(
    before: Position,
    latest: Position,
    subscription: Subscription,
    earliest_of: Callable[[Iterable[TopicPartition]], Ends],
    log_end_of: Callable[[Iterable[TopicPartition]], Ends],
) -> Resumption:
    """Return where each partition of `latest` continues after `before`.

    New partitions, and all of a recreated topic, begin at their earliest offset. A partition whose
    log ends before the offset that was read continues at its end. `log_end_of`: high watermarks,
    which open transactions do not hold back as they do `latest`.
    """
    gone = sorted(set(before.offsets) - set(latest.offsets))
    dropped = [partition for partition in gone if not covers(subscription, partition)]
    losses = [
        f"{partition} was read to {before.offsets[partition]} and is gone"
        for partition in gone
        if partition not in dropped
    ]
    remade = {topic for topic, known in before.ids.items() if latest.ids.get(topic, known) != known}
    losses += [f"{topic} was deleted and made again since it was read" for topic in sorted(remade)]
    new = [
        partition
        for partition in latest.offsets
        if partition not in before.offsets or partition.topic in remade
    ]
    added = earliest_of(new) if new else {}
    losses += [
        f"new partition {partition} starts at {offset}, not at 0"
        for partition, offset in sorted(added.items())
        if offset > 0 and partition.topic not in remade
    ]
    begin = {partition: before.offsets[partition] for partition in latest.offsets.keys() - added}
    beyond = [at for at, offset in begin.items() if latest.offsets[at] < offset]
    for partition, end in sorted(log_end_of(beyond).items() if beyond else ()):
        if end < begin[partition]:
            losses.append(f"{partition} ends at {end}, it was read to {begin[partition]}")
            added[partition] = end
    return Resumption(begin | added, added, losses=losses, dropped=dropped)


def skip_older(resumption: Resumption, not_before: Ends) -> None:
    """Start partitions no earlier than `not_before`, and record the skipped ranges."""
    for partition, offset in sorted(not_before.items()):
        begin = resumption.begin.get(partition, offset)
        if begin < offset:
            resumption.skipped[partition] = (begin, offset)
            resumption.begin[partition] = resumption.added[partition] = offset


def covers(subscription: Subscription, partition: TopicPartition) -> bool:
    """Return whether the subscription includes a partition, whether or not it exists."""
    if subscription.strategy is Strategy.PATTERN:
        return subscription.matches(partition.topic)
    if subscription.strategy is Strategy.SUBSCRIBE:
        return partition.topic in subscription.topics
    return partition.partition in dict(subscription.assigned).get(partition.topic, ())
