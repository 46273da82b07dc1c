"""Replay or drop quarantined records, each once.

Both are one transaction under an id of the flow: the copies to the retry topic, and the note that
these records are settled. Taking the id ends the transaction of a command that was killed, so the
notes that are read after it are complete.
"""

import time
from collections.abc import Callable, Sequence

from headrace.client.admin.topics import create_topic
from headrace.client.client import Client
from headrace.client.producer import transactions
from headrace.client.producer.producer import Producer
from headrace.client.sync import run
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.pipeline.quarantine.records import Quarantined, read_quarantine
from headrace.pipeline.quarantine.settled import DROPPED, REPLAYED, Settled
from headrace.record.compression import Codec
from headrace.spark.quarantine.names import replay_id, retry_topic

Wanted = Callable[[Quarantined], bool]
_TIMEOUT_MS = 300_000


def waiting(client: Client, topic: str, wanted: Wanted) -> list[tuple[Quarantined, str | None]]:
    """Return the wanted records of a topic's quarantine, and how each is settled, None if not."""
    settled: dict[tuple[str, str], Settled] = {}
    found = []
    for record in read_quarantine(client, topic):
        if not wanted(record):
            continue
        if record.owner not in settled:
            settled[record.owner] = Settled(client, *record.owner)
            settled[record.owner].load()
        found.append((record, settled[record.owner].outcome(record)))
    return found


def replay(client: Client, topic: str, owner: tuple[str, str], wanted: Wanted) -> int:
    """Send the wanted records of a flow that are not settled to its retry topic; return how many.

    Raises ApiError, ClientError.
    """
    target = retry_topic(owner[0], topic)
    _create(client, target)
    return _settle(client, topic, owner, wanted, REPLAYED, target)


def drop(client: Client, topic: str, owner: tuple[str, str], wanted: Wanted) -> int:
    """Note the wanted records of a flow that are not settled as dropped; return how many.

    They stay in the quarantine until its retention. Raises ApiError, ClientError.
    """
    return _settle(client, topic, owner, wanted, DROPPED, None)


def _settle(
    client: Client,
    topic: str,
    owner: tuple[str, str],
    wanted: Wanted,
    how: str,
    target: str | None,
) -> int:
    settled = Settled(client, *owner)
    settled.create()
    writer = run(transactions.take_id(client, replay_id(*owner), _TIMEOUT_MS))
    settled.load()
    found = [
        record
        for record in read_quarantine(client, topic)
        if record.owner == owner and wanted(record) and settled.outcome(record) is None
    ]
    if not found:
        return 0
    producer = Producer(client, compression=Codec.LZ4, create_topics=False)
    producer.write_as(*writer)
    places = {TopicPartition(settled.topic, 0)}
    if target is not None:
        places.add(TopicPartition(target, 0))
    run(transactions.add_partitions(client, writer, places))
    if target is not None:
        _send(producer, target, found)
    settled.settle(producer, found, how, int(time.time() * 1000))
    run(producer.flush())
    run(transactions.end(client, writer, commit=True))
    return len(found)


def _send(producer: Producer, target: str, found: Sequence[Quarantined]) -> None:
    run(producer.partitions(target))
    for _, record, _ in found:
        sending = producer.send(
            target,
            record.value,
            record.key,
            timestamp=record.timestamp,
            headers=record.headers,
            partition=0,
        )
        run(sending)


def _create(client: Client, topic: str) -> None:
    """Create the retry topic if no query has: then none reads it yet."""
    known = run(client.metadata([topic]))
    if not known.topics[topic].error_code:
        return
    configs = {"cleanup.policy": "delete", "message.timestamp.type": "CreateTime"}
    try:
        run(create_topic(client, topic, partitions=1, configs=configs))
    except ApiError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
    run(client.leaders([topic]))
