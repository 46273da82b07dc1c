"""Where a micro-batch begins: what became of the partitions since the batch before ended.

Arithmetic and comparisons alone; what must be asked of the brokers is handed in.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from headrace.model.nouns import TopicPartition
from headrace.spark.errors import SourceError
from headrace.spark.source.offsets import Ends, Position, Skipped, topics_of
from headrace.spark.source.options import Strategy, Subscription


@dataclass
class Resumption:
    """Where the partitions of a batch begin."""

    begin: Ends
    added: Ends
    """Those of them that do not begin where the batch before ended."""
    skipped: Skipped = field(default_factory=dict)
    """Ranges left out because they are older than the query is to start."""
    losses: list[str] = field(default_factory=list)
    """What should be there and is not, a sentence's beginning each."""
    dropped: list[TopicPartition] = field(default_factory=list)
    """Partitions in the checkpoint that are not subscribed to any more."""


def refuse_another_origin(before: Position, latest: Position) -> None:
    """Raise SourceError where the checkpoint is of another cluster or of other topics.

    Another cluster's id is accepted where all topics have the ids they had: their directories
    were carried over.
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
    """Return where each partition of `latest` goes on after `before`.

    New partitions, and all of a topic that was made again, begin at their earliest offset. A
    partition whose log ends before what was read goes on at its end. `log_end_of`: the high
    watermarks, which an open transaction does not hold back as it does `latest`.
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
    """Let partitions begin no earlier than `not_before`, and note the ranges left out."""
    for partition, offset in sorted(not_before.items()):
        begin = resumption.begin.get(partition, offset)
        if begin < offset:
            resumption.skipped[partition] = (begin, offset)
            resumption.begin[partition] = resumption.added[partition] = offset


def covers(subscription: Subscription, partition: TopicPartition) -> bool:
    """Tell whether a partition would be read if it were there."""
    if subscription.strategy is Strategy.PATTERN:
        return subscription.matches(partition.topic)
    if subscription.strategy is Strategy.SUBSCRIBE:
        return partition.topic in subscription.topics
    return partition.partition in dict(subscription.assigned).get(partition.topic, ())
