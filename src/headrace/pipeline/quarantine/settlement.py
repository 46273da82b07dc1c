"""Replay or drop quarantined records, each once.

Each is one transaction under an id of the flow: the copies to the retry topic, and the note that
these records are settled. Taking the id ends the transaction of a command that was killed, so the
notes that are read after it are complete.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from headrace.client.admin.topics import create_topic
from headrace.client.producer import transactions
from headrace.client.producer.producer import Producer
from headrace.client.sync import run
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.pipeline.quarantine.records import Quarantined, end_offsets, read_quarantine
from headrace.pipeline.quarantine.settled import DROPPED, REPLAYED, Settled
from headrace.record.compression import Codec
from headrace.spark.quarantine.names import quarantine_topic, replay_id, retry_topic

if TYPE_CHECKING:
    from headrace.client.client import Client

Wanted = Callable[[Quarantined], bool]
Decide = Callable[[Quarantined, str | None], str | None]
"""From a record, and how it is settled, to how it is settled then; None: it waits."""
_TIMEOUT_MS = 300_000


def waiting(client: Client, topic: str, wanted: Wanted) -> Iterator[tuple[Quarantined, str | None]]:
    """Yield the wanted records of a topic's quarantine, and how each is settled, None if not.

    One record at a time is in memory. Raises ApiError, ClientError.
    """
    settled: dict[tuple[str, str], Settled] = {}
    for record in read_quarantine(client, topic):
        if not wanted(record):
            continue
        if record.owner not in settled:
            settled[record.owner] = Settled(client, *record.owner)
            settled[record.owner].load()
        yield record, settled[record.owner].outcome(record)


class SentRange(NamedTuple):
    """Neighbouring records of one partition."""

    partition: int
    first: int
    last: int

    def is_followed_by(self, other: SentRange) -> bool:
        """Return whether another range begins behind this one."""
        return self.partition == other.partition and self.last + 1 == other.first


@dataclass
class Sent:
    """The records that a replay of the quarantine has sent to one flow."""

    records: int = 0
    again: int = 0
    """Records that were sent before, and refused again."""
    ranges: list[SentRange] = field(default_factory=list)
    """Their positions in the topic in which they were refused, in order."""
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    """End offsets of the quarantine before they were sent."""

    def add(self, found: Quarantined) -> None:
        """Count a record."""
        self.records += 1
        self.again += found.attempt > 1
        partition, offset = found.place
        _extend(self.ranges, SentRange(partition, offset, offset))

    def sort(self) -> None:
        """Bring the ranges in order, neighbours together."""
        joined: list[SentRange] = []
        for range_ in sorted(self.ranges):
            _extend(joined, range_)
        self.ranges = joined

    def __contains__(self, place: tuple[int, int]) -> bool:
        """Return whether the record at this partition and offset was sent; after `sort`."""
        partition, offset = place
        number = bisect_right(self.ranges, (partition, offset), key=lambda range_: range_[:2]) - 1
        range_ = self.ranges[number] if number >= 0 else None
        return range_ is not None and range_.partition == partition and offset <= range_.last


def _extend(ranges: list[SentRange], range_: SentRange) -> None:
    """Append a range, or extend the last one by it."""
    if ranges and ranges[-1].is_followed_by(range_):
        ranges[-1] = ranges[-1]._replace(last=range_.last)
    else:
        ranges.append(range_)


def replay(client: Client, topic: str, owner: tuple[str, str], wanted: Wanted) -> Sent:
    """Send the wanted records of a flow that are not settled to its retry topic; return which.

    Raises ApiError, ClientError.
    """
    target = retry_topic(owner[0], topic)
    _create(client, owner[0], topic)
    sent = Sent(ends=end_offsets(client, quarantine_topic(topic)))

    def decide(record: Quarantined, outcome: str | None) -> str | None:
        if outcome is None and wanted(record):
            sent.add(record)
            return REPLAYED
        return outcome

    settle(client, topic, owner, decide, target)
    sent.sort()
    return sent


def drop(client: Client, topic: str, owner: tuple[str, str], wanted: Wanted) -> int:
    """Note the wanted records of a flow that are not settled as dropped; return how many.

    They stay in the quarantine until its retention. Raises ApiError, ClientError.
    """
    return settle(
        client,
        topic,
        owner,
        lambda record, outcome: DROPPED if outcome is None and wanted(record) else outcome,
    )


def settle(
    client: Client,
    topic: str,
    owner: tuple[str, str],
    decide: Decide,
    target: str | None = None,
) -> int:
    """Change how records of a flow are settled, in one transaction; return how many it changed.

    `target`: a topic of one partition that gets a copy of each. Raises ApiError, ClientError.
    """
    settled = Settled(client, *owner)
    settled.create()
    writer = run(transactions.take_id(client, replay_id(*owner), _TIMEOUT_MS))
    settled.load()
    producer = Producer(client, compression=Codec.LZ4, create_topics=False)
    count = 0
    for record in read_quarantine(client, topic):
        if record.owner != owner:
            continue
        outcome = settled.outcome(record)
        how = decide(record, outcome)
        if how == outcome:
            continue
        if not count:
            places = {TopicPartition(name, 0) for name in (settled.topic, target) if name}
            producer.write_as(*writer)
            run(transactions.add_partitions(client, writer, places))
            if target is not None:
                run(producer.partitions(target))
        if target is not None:
            _send(producer, target, record)
        settled.change(record, how)
        count += 1
    if count:
        settled.settle(producer, int(time.time() * 1000))
        run(producer.flush())
        run(transactions.end(client, writer, commit=True))
    return count


def _send(producer: Producer, target: str, found: Quarantined) -> None:
    record = found.record
    sending = producer.send(
        target,
        record.value,
        record.key,
        timestamp=record.timestamp,
        headers=record.headers,
        partition=0,
    )
    run(sending)


def is_read(client: Client, pipeline: str, topic: str) -> bool:
    """Return whether a retry topic exists: queries that read it create it when they start."""
    name = retry_topic(pipeline, topic)
    return not run(client.metadata([name])).topics[name].error_code


def _create(client: Client, pipeline: str, topic: str) -> None:
    """Create the retry topic if no query has: then none reads it yet."""
    if is_read(client, pipeline, topic):
        return
    topic = retry_topic(pipeline, topic)
    # The copies count as settled: they wait for the flow, however late it reads them.
    configs = {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "message.timestamp.type": "CreateTime",
    }
    try:
        run(create_topic(client, topic, partitions=1, configs=configs))
    except ApiError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
    run(client.leaders([topic]))
