"""The decision log of a sink: its last committed batch, in a compacted topic of one partition.

A decision is one record, written in a transaction of the driver. It is valid if that transaction is
committed, which the coordinator grants only to the newest run. A second record states that all
transactions of the decision have ended. If that one is lost or late, they are ended again, which
does no harm.

    key        value
    decided    the decision as JSON: query, batch, digest, positions, transactions
    ended      query/batch/digest of a decision whose transactions have all ended
"""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import NamedTuple

from headrace.arrow.read.decode import PartitionDecoder
from headrace.client.admin.topics import create_topic
from headrace.client.calls.call import check
from headrace.client.calls.fetch import Wanted, fetch_call, read_fetched
from headrace.client.calls.metadata import Metadata
from headrace.client.calls.offsets import EARLIEST, LATEST, list_offsets
from headrace.client.client import Client
from headrace.client.producer import transactions
from headrace.client.producer.producer import Producer
from headrace.client.producer.transactions import Writer
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.record.compression import Codec

_DECIDED, _ENDED = b"decided", b"ended"
_WINDOW_OFFSETS = 64
"""How many offsets before the end the search for the last decision starts; doubled each time."""
_CONFIGS = {
    "cleanup.policy": "compact",
    "segment.bytes": str(16 << 20),
    "max.message.bytes": str(16 << 20),
}
_COLUMNS = ("key", "value", "offset")


@dataclass(frozen=True)
class Decision:
    """The decision to commit a batch, with the transactions that contain its records."""

    query: str
    """Id of the streaming query, or `batch` for batch writes."""
    batch: int
    digest: str
    positions: str
    transactions: list[list[object]]
    """Transactional id, producer id and epoch of each transaction of the batch."""
    quarantine: int | None = None
    """Digest of the manifest of the batch's refused records; None if none is refused."""

    @property
    def writers(self) -> list[Writer]:
        """Transactional id, producer id and epoch of each transaction, as `Writer`s."""
        return [Writer(*found) for found in self.transactions]  # type: ignore[arg-type]


class LastDecision(NamedTuple):
    """The sink's last decision, and whether its transactions are known to have ended."""

    decision: Decision
    ended: bool


class DecisionLog:
    """The decisions of one sink. Its coroutines run on a client with plain sockets."""

    def __init__(self, client: Client, topic: str, key: bytes = _DECIDED) -> None:
        """Choose the topic. `key`: of decisions, where several queries share a topic."""
        self._client = client
        self._partition = TopicPartition(topic, 0)
        self._key = key

    @property
    def partition(self) -> TopicPartition:
        """The partition that holds the decisions."""
        return self._partition

    async def create(self) -> None:
        """Create the decision topic if it does not exist."""
        topic = self._partition.topic
        known = await self._client.metadata([topic])
        if not known.topics[topic].error_code:
            return
        with suppress(_Exists):
            await self._create()
        await self._client.leaders([topic])

    async def _create(self) -> None:
        try:
            await create_topic(self._client, self._partition.topic, partitions=1, configs=_CONFIGS)
        except ApiError as error:
            if error.code is ErrorCode.TOPIC_ALREADY_EXISTS:
                raise _Exists from None
            raise

    async def last(self) -> LastDecision | None:
        """Return the last decision, None if there was none yet.

        Complete only after this run has taken over the driver's transactional id, which fences
        other runs.
        """
        known = await self._client.leaders([self._partition.topic])
        ends = await list_offsets(
            self._client, {self._partition: LATEST}, read_committed=True, metadata=known
        )
        starts = await list_offsets(self._client, {self._partition: EARLIEST}, metadata=known)
        end, start = ends[self._partition].offset, starts[self._partition].offset
        window = _WINDOW_OFFSETS
        while True:
            begin = max(start, end - window)
            found = await self._read(begin, end, known)
            if self._key in found:
                decision = Decision(**json.loads(found[self._key]))
                ended = found.get(_ENDED, b"").decode() == _name_of(decision)
                return LastDecision(decision, ended)
            if begin <= start:
                return None
            window *= 2

    async def _read(self, begin: int, end: int, known: Metadata) -> dict[bytes, bytes]:
        """Return the last value of each key among the committed records in this range of
        offsets."""
        found: dict[bytes, bytes] = {}
        if begin >= end:
            return found
        topic, partition = self._partition
        topic_id = known.topics[topic].topic_id
        decoder = PartitionDecoder(
            topic, partition, offset_from=begin, offset_until=end, columns=_COLUMNS
        )
        while not decoder.done:
            wanted = [Wanted(topic, topic_id, partition, decoder.position)]
            link = await self._client.broker(known.leader(topic, partition))
            answer = await self._client.ask(link, fetch_call(wanted, read_committed=True))
            (fetched,) = read_fetched(answer, wanted)
            check(fetched.error_code)
            before = decoder.position
            batches = [*decoder.feed(fetched.records, fetched.aborted), *decoder.flush()]
            for batch in batches:
                keys, values = batch["key"].to_pylist(), batch["value"].to_pylist()
                found.update(zip(keys, values, strict=True))
            if decoder.position == before:
                raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE, f"{topic} ends before {end}")
        return found

    async def decide(self, driver: Writer, decision: Decision, now_ms: int) -> None:
        """Write the decision in a transaction. ApiError with a code of `transactions.GONE`: a newer
        run has begun."""
        await transactions.add_partitions(self._client, driver, [self._partition])
        producer = Producer(self._client, compression=Codec.LZ4)
        producer.write_as(*driver)
        await self.write(producer, decision, now_ms)
        await producer.flush()
        await transactions.end(self._client, driver, commit=True)

    async def write(self, producer: Producer, decision: Decision, now_ms: int) -> None:
        """Send the decision in the producer's open transaction; the caller flushes and ends it."""
        # Older releases refuse a field that they do not know.
        fields = {name: value for name, value in asdict(decision).items() if value is not None}
        value = json.dumps(fields).encode()
        await producer.send(self._partition.topic, value, self._key, timestamp=now_ms, partition=0)

    async def mark_ended(self, decision: Decision, now_ms: int) -> None:
        """Record that all of the decision's transactions have ended."""
        # Duplicates do no harm, so the producer needs no idempotence.
        producer = Producer(self._client, idempotent=False)
        value = _name_of(decision).encode()
        await producer.send(self._partition.topic, value, _ENDED, timestamp=now_ms, partition=0)
        await producer.flush()


class _Exists(Exception):
    """Another run has created the topic in between."""


def _name_of(decision: Decision) -> str:
    return f"{decision.query}/{decision.batch}/{decision.digest}"
