"""The decision log: what was decided last of one sink, in a compacted topic of one partition.

A decision is one record, written in a transaction of the driver's: it holds when that transaction
is committed, which a coordinator grants only to the newest run. A second record says when all that
was decided has been ended; lost or late it does no harm, for ending twice is ending once.
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
"""How far before the end the last decision is looked for at first; then twice as far, and so on."""
_CONFIGS = {
    "cleanup.policy": "compact",
    "segment.bytes": str(16 << 20),
    "max.message.bytes": str(16 << 20),
}
_COLUMNS = ("key", "value", "offset")


@dataclass(frozen=True)
class Decision:
    """What was decided: this batch, with these transactions, is written."""

    query: str
    """The query's id, or `batch` for batch writes."""
    batch: int
    digest: str
    positions: str
    transactions: list[list[object]]
    """Transactional id, producer id and epoch of each."""

    @property
    def writers(self) -> list[Writer]:
        """Who wrote the transactions."""
        return [Writer(*found) for found in self.transactions]  # type: ignore[arg-type]


class LastDecision(NamedTuple):
    """Where the sink stands."""

    decision: Decision
    ended: bool


class DecisionLog:
    """The decisions of one sink. Coroutines of a client on plain sockets."""

    def __init__(self, client: Client, topic: str) -> None:
        self._client = client
        self._partition = TopicPartition(topic, 0)

    async def create(self) -> None:
        """Make the topic where it is not there."""
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
        """Return what was decided last; complete for who has just taken the driver's id."""
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
            if _DECIDED in found:
                decision = Decision(**json.loads(found[_DECIDED]))
                ended = found.get(_ENDED, b"").decode() == _name_of(decision)
                return LastDecision(decision, ended)
            if begin <= start:
                return None
            window *= 2

    async def _read(self, begin: int, end: int, known: Metadata) -> dict[bytes, bytes]:
        """Return the last value of each key among committed records of these offsets."""
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
        """Write the decision, all or nothing. ApiError of `transactions.GONE`: a newer run is."""
        await transactions.add_partitions(self._client, driver, [self._partition])
        producer = Producer(self._client, compression=Codec.LZ4)
        producer.write_as(*driver)
        value = json.dumps(asdict(decision)).encode()
        await producer.send(self._partition.topic, value, _DECIDED, timestamp=now_ms, partition=0)
        await producer.flush()
        await transactions.end(self._client, driver, commit=True)

    async def mark_ended(self, decision: Decision, now_ms: int) -> None:
        """Note that all of the decision's transactions are ended."""
        # Noted twice it is noted: no producer id is asked for.
        producer = Producer(self._client, idempotent=False)
        value = _name_of(decision).encode()
        await producer.send(self._partition.topic, value, _ENDED, timestamp=now_ms, partition=0)
        await producer.flush()


class _Exists(Exception):
    """Another run has made the topic meanwhile."""


def _name_of(decision: Decision) -> str:
    return f"{decision.query}/{decision.batch}/{decision.digest}"
