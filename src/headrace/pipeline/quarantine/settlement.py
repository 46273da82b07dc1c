"""Replay or drop quarantined records, each once.

Both are one transaction under an id of the flow: the copies to the retry topic, and the note that
these records are settled. Taking the id ends the transaction of a command that was killed, so the
notes that are read after it are complete.
"""

import time
from collections.abc import Callable, Iterator

from headrace.client.admin.topics import create_topic
from headrace.client.client import Client
from headrace.client.producer import transactions
from headrace.client.producer.producer import Producer
from headrace.client.sync import run
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.pipeline.quarantine.records import Quarantined, read_quarantine
from headrace.pipeline.quarantine.settled import COVERED, DROPPED, REPLAYED, Settled
from headrace.record.compression import Codec
from headrace.spark.quarantine.names import replay_id, retry_topic

Wanted = Callable[[Quarantined], bool]
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


def replay(client: Client, topic: str, owner: tuple[str, str], wanted: Wanted) -> int:
    """Send the wanted records of a flow that are not settled to its retry topic; return how many.

    Raises ApiError, ClientError.
    """
    target = retry_topic(owner[0], topic)
    _create(client, owner[0], topic)
    return _settle(client, topic, owner, wanted, REPLAYED, target)


def drop(client: Client, topic: str, owner: tuple[str, str], wanted: Wanted) -> int:
    """Note the wanted records of a flow that are not settled as dropped; return how many.

    They stay in the quarantine until its retention. Raises ApiError, ClientError.
    """
    return _settle(client, topic, owner, wanted, DROPPED)


def cover(client: Client, topic: str, owner: tuple[str, str], wanted: Wanted) -> int:
    """Note the wanted records of a flow that wait as rows of an applied replay; return how many.

    Raises ApiError, ClientError.
    """
    return _settle(client, topic, owner, wanted, COVERED)


def uncover(client: Client, topic: str, owner: tuple[str, str], wanted: Wanted) -> int:
    """Let the wanted records of a flow that are covered wait again; return how many.

    Raises ApiError, ClientError.
    """
    return _settle(client, topic, owner, wanted, None)


def _settle(
    client: Client,
    topic: str,
    owner: tuple[str, str],
    wanted: Wanted,
    how: str | None,
    target: str | None = None,
) -> int:
    """Settle the wanted records that wait; `how` None: let those that are covered wait again."""
    before = COVERED if how is None else None
    settled = Settled(client, *owner)
    settled.create()
    writer = run(transactions.take_id(client, replay_id(*owner), _TIMEOUT_MS))
    settled.load()
    producer = Producer(client, compression=Codec.LZ4, create_topics=False)
    count = 0
    for record in read_quarantine(client, topic):
        if record.owner != owner or not wanted(record) or settled.outcome(record) != before:
            continue
        if not count:
            places = {TopicPartition(name, 0) for name in (settled.topic, target) if name}
            producer.write_as(*writer)
            run(transactions.add_partitions(client, writer, places))
            if target is not None:
                run(producer.partitions(target))
        if target is not None:
            _send(producer, target, record)
        if how is None:
            settled.forget(record)
        else:
            settled.note(record, how)
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
    configs = {"cleanup.policy": "delete", "message.timestamp.type": "CreateTime"}
    try:
        run(create_topic(client, topic, partitions=1, configs=configs))
    except ApiError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
    run(client.leaders([topic]))
