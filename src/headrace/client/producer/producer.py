"""Idempotent producer: batches per partition, several requests in flight, order kept on retries.

With idempotence (the default at acks=all) every batch carries producer id, epoch and sequence, so a
batch that is retried after an unknown outcome is stored once. Batches of a partition are sent in
order. When one fails, the batches after it wait for their responses and are sent again after it.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.client.calls.call import RETRIABLE, HotCall, error_code
from headrace.client.client import BACKOFF_SECONDS_MAX, BACKOFF_SECONDS_MIN, Client, common_version
from headrace.client.producer.partitioner import StickyPartitioner
from headrace.client.producer.value_batches import bytes_beside
from headrace.client.producer_batch import TOO_LARGE, Batch
from headrace.client.transport.handshake import InitProducerCall
from headrace.client.transport.port import ClientError, Link, Refused, Reply
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.ports.backoff import backoff_seconds
from headrace.record.batch import build
from headrace.record.compression import Codec
from headrace.record.encoded_records import EncodedRecords
from headrace.record.record import Header, Record
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.frame import parse_response
from headrace.wire.kafka.hot import produce as codec
from headrace.wire.kafka.primitives import NO_UUID

BATCH_BYTES = 256 << 10
IN_FLIGHT_MAX = 5
"""Maximum unanswered requests; brokers detect duplicates of a partition's last five batches."""
BUFFERED_BATCHES_MAX = 64
"""Full batches that may be queued before `send` waits for responses."""
_WITHOUT_ADDING = 11
"""The newest Produce version in which the client must add partitions to a transaction itself."""
_OUT_OF_ORDER = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})


@dataclass(slots=True)
class _Request:
    """A Produce request whose response has not been read."""

    link: Link
    version: int
    call: HotCall[codec.ProduceRequest, codec.ProduceResponse]
    reply: Reply
    batches: list[Batch]


class Producer:
    """A producer; `flush` returns when all its records are acknowledged. Not thread-safe."""

    def __init__(
        self,
        client: Client,
        *,
        acks: int = -1,
        idempotent: bool | None = None,
        compression: Codec = Codec.NONE,
        batch_bytes: int = BATCH_BYTES,
        create_topics: bool = True,
    ) -> None:
        """Create a producer; `idempotent` None: idempotent only if `acks` is -1 (all)."""
        self.client = client
        self.acks = acks
        self.compression = compression
        self.batch_bytes = batch_bytes
        """Maximum size of a batch in bytes; lowered when a topic refuses a batch as too large."""
        self.create_topics = create_topics
        self.idempotent = acks == -1 if idempotent is None else idempotent
        self.acknowledged = 0
        """Number of records acknowledged; with acks=0, of records sent."""
        self.acknowledged_bytes = 0
        self.offsets: dict[TopicPartition, int] = {}
        """Offset of the last acknowledged record, by partition."""
        self.on_delivered: Callable[[int, int, int], None] = lambda *_: None
        """Called for each acknowledged batch with record count, bytes and first timestamp in ms."""
        self._transactional_id: str | None = None
        self._producer = (-1, -1)
        self._sequences: dict[TopicPartition, int] = {}
        self._counts: dict[str, int] = {}
        self._partitioners: dict[str, StickyPartitioner] = {}
        self._open: dict[TopicPartition, Batch] = {}
        self._queues: dict[TopicPartition, deque[Batch]] = {}
        self._requests: deque[_Request] = deque()
        self._queued = 0

    async def partitions(self, topic: str) -> int:
        """Return the partition count of `topic`, auto-creating the topic if configured."""
        if topic not in self._counts:
            known = await self.client.leaders([topic], create=self.create_topics)
            self._counts[topic] = len(known.topics[topic].partitions)
        return self._counts[topic]

    async def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        timestamp: int,
        headers: Sequence[Header] = (),
        partition: int | None = None,
    ) -> TopicPartition:
        """Add a record to its partition's batch; return the partition.

        Waits only while BUFFERED_BATCHES_MAX batches are queued. ApiError or ClientError of an
        earlier record that was not delivered; the producer cannot be used after it.
        """
        if topic not in self._counts:
            await self.partitions(topic)
        where = self.place(topic, key, partition)
        size = len(value or b"") + bytes_beside(key, headers)
        batch = self._open.get(where)
        if batch is not None and batch.size + size > self.batch_bytes:
            self._seal(batch)
            batch = None
        if batch is None:
            batch = self._open[where] = Batch(where)
        batch.records.append(Record(0, timestamp, key, value, headers))
        batch.size += size
        batch.keyed = batch.keyed or key is not None
        if batch.size >= self.batch_bytes:
            self._seal(batch)
            await self._advance(BUFFERED_BATCHES_MAX)
        return where

    def place(self, topic: str, key: bytes | None, partition: int | None = None) -> TopicPartition:
        """Return a record's partition, `partition` if given; call `partitions` before."""
        count = self._counts[topic]
        if partition is None:
            partitioner = self._partitioners.get(topic)
            if partitioner is None:
                partitioner = self._partitioners[topic] = StickyPartitioner()
            partition = partitioner.choose(key, count)
        elif not 0 <= partition < count:
            raise ApiError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"{topic} has partitions 0 to {count - 1}, not {partition}",
            )
        return TopicPartition(topic, partition)

    def write_as(self, transactional_id: str, producer_id: int, epoch: int) -> None:
        """Write all further records as part of this producer's open transaction.

        Add each partition to the transaction before its first batch
        (`transactions.add_partitions`).
        """
        self._transactional_id, self._producer = transactional_id, (producer_id, epoch)
        self._sequences.clear()

    async def send_encoded(
        self, where: TopicPartition, encoded: EncodedRecords, size: int = 0, *, keyed: bool = True
    ) -> None:
        """Queue a batch that was encoded elsewhere, counted as `size` bytes; errors as in `send`.

        `keyed` False: `place` then chooses another partition.
        """
        if where in self._open:
            self._seal(self._open[where])
        size = size or len(encoded.payload)
        self._seal(Batch(where, size=size, keyed=keyed, encoded=encoded))
        await self._advance(BUFFERED_BATCHES_MAX)

    async def dispatch(self) -> None:
        """Send all batches, full or not, without waiting for their responses."""
        for batch in list(self._open.values()):
            self._seal(batch)
        await self._advance(BUFFERED_BATCHES_MAX)

    async def flush(self) -> None:
        """Send all batches and wait until they are acknowledged; errors as in `send`."""
        await self.dispatch()
        await self._advance(0)

    def _seal(self, batch: Batch) -> None:
        """Close a batch and append it to its partition's queue."""
        self._open.pop(batch.partition, None)
        if not batch.keyed:
            topic = batch.partition.topic
            partitioner = self._partitioners.get(topic)
            if partitioner is not None:
                partitioner.next_batch(self._counts[topic])
        self._queues.setdefault(batch.partition, deque()).append(batch)
        self._queued += 1

    async def _advance(self, waiting_max: int) -> None:
        """Send what can be sent; read responses until `waiting_max` batches or fewer wait."""
        failures = 0
        while self._queued:
            try:
                await self._send_ready()
                if self._queued <= waiting_max:
                    return
                if self._requests:
                    await self._settle(self._requests.popleft())
                failures = 0
            except (ApiError, ClientError) as error:
                await self._recover(error)
                failures += 1
                await self.client.transport.sleep(
                    backoff_seconds(failures, BACKOFF_SECONDS_MIN, BACKOFF_SECONDS_MAX)
                )

    async def _send_ready(self) -> None:
        """Send each partition's next batch, one request a leader, up to IN_FLIGHT_MAX requests."""
        if self.idempotent and self._producer[0] < 0:
            self._producer = await self.client.ask_any(InitProducerCall())
        while True:
            by_leader = await self._next_batches()
            if not by_leader:
                return
            for leader, batches in by_leader.items():
                await self._send(await self.client.broker(leader), batches)

    async def _next_batches(self) -> dict[int, list[Batch]]:
        ready: list[Batch] = []
        for queue in self._queues.values():
            for batch in queue:
                if not batch.in_flight:
                    ready.append(batch)
                    break
        if not ready or len(self._requests) >= IN_FLIGHT_MAX:
            return {}
        known = self.client.known
        topics = {batch.partition.topic for batch in ready}
        if known is None or not topics <= known.topics.keys():
            known = await self.client.metadata(sorted(topics))
        by_leader: dict[int, list[Batch]] = {}
        for batch in ready:
            by_leader.setdefault(known.leader(*batch.partition), []).append(batch)
        return by_leader

    async def _send(self, link: Link, batches: list[Batch]) -> None:
        topics: dict[str, list[codec.PartitionData]] = {}
        for batch in batches:
            self._encode(batch)
            data = codec.PartitionData(batch.partition.partition, batch.data)
            topics.setdefault(batch.partition.topic, []).append(data)
        known = self.client.known
        ids = {
            name: known.topics[name].topic_id if known and name in known.topics else NO_UUID
            for name in topics
        }
        request = codec.ProduceRequest(
            self._transactional_id,
            self.acks,
            int(self.client.request_timeout_seconds * 1000),
            [codec.TopicData(name, ids[name], topics[name]) for name in topics],
        )
        newest = 13 if NO_UUID not in ids.values() else 12
        if self._transactional_id is not None:
            newest = _WITHOUT_ADDING
        call = HotCall(
            ApiKey.PRODUCE,
            codec.encode_request,
            codec.decode_response,
            request,
            versions=(3, newest),
        )
        version = common_version(link.versions, call)
        frame = call.encode(version, link.next_correlation_id(), self.client.client_id)
        now = self.client.transport.now()
        for batch in batches:
            batch.first_sent = batch.first_sent or now
        reply = link.send(frame, answered=self.acks != 0)
        for batch in batches:
            batch.in_flight = True
        if self.acks == 0:
            for batch in batches:
                self._delivered(batch, -1)
            return
        self._requests.append(_Request(link, version, call, reply, batches))

    def _encode(self, batch: Batch) -> None:
        """Assign a batch its sequence and encode it, once: a retry must send the same bytes."""
        if batch.data:
            return
        producer_id, epoch = self._producer
        if self.idempotent:
            batch.sequence = self._sequences.get(batch.partition, 0)
            following = batch.sequence + batch.count
            self._sequences[batch.partition] = following & 0x7FFFFFFF
        if batch.encoded is not None:
            batch.data = batch.encoded.sealed(
                producer_id,
                epoch,
                batch.sequence,
                transactional=self._transactional_id is not None,
            )
            return
        batch.data = build(
            batch.records,
            compression=self.compression,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=batch.sequence,
            transactional=self._transactional_id is not None,
        )

    async def _settle(self, request: _Request) -> None:
        """Wait for a response and apply it to its batches; raise the first error in it."""
        try:
            frame = await request.reply.wait(self.client.request_timeout_seconds)
        except ClientError:
            for batch in request.batches:
                batch.in_flight = False
            raise
        _, body = parse_response(frame, request.call.key, request.version)
        response = request.call.decode(request.version, frame[body:])
        answers = {
            (topic.name or topic.topic_id, partition.partition): partition
            for topic in response.topics
            for partition in topic.partitions
        }
        ids = {topic.name: topic.topic_id for topic in request.call.request.topics}
        failure: ApiError | None = None
        for batch in request.batches:
            name, number = batch.partition
            answer = answers.get((name, number), answers.get((ids[name], number)))
            if answer is None:
                code, offset, text = ErrorCode.UNKNOWN_SERVER_ERROR, -1, "no answer"
            else:
                code, offset = error_code(answer.error_code), answer.base_offset
                text = answer.error_message or ""
            if code in {ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER}:
                self._delivered(batch, offset)
                continue
            batch.in_flight = False
            if code in TOO_LARGE and batch.count > 1:
                self._halve(batch)
                continue
            # After a failed batch, a gap in the sequence of later ones is only its consequence.
            if failure is None or failure.code in RETRIABLE:
                failure = self._failure(batch, code, text)
        if failure is not None:
            raise failure

    def _failure(self, batch: Batch, code: ErrorCode, text: str) -> ApiError:
        is_first = self._queues[batch.partition][0] is batch
        if code in _OUT_OF_ORDER and not is_first:
            code = ErrorCode.NETWORK_EXCEPTION
        if code in TOO_LARGE:
            text = "; ".join(filter(None, (batch.only_record(), text)))
        detail = f" ({text})" if text else ""
        return ApiError(code, f"{batch.partition}: not stored{detail}")

    def _halve(self, batch: Batch) -> None:
        """Replace a batch that is too large by its two halves, and lower `batch_bytes`."""
        queue = self._queues[batch.partition]
        at = queue.index(batch)
        del queue[at]
        for half in reversed(batch.halves()):
            queue.insert(at, half)
        self._queued += 1
        self.batch_bytes = min(self.batch_bytes, max(batch.size // 2, 1))

    def _delivered(self, batch: Batch, offset: int) -> None:
        """Remove an acknowledged batch from its queue and count its records."""
        batch.done = True
        queue = self._queues[batch.partition]
        # The head may still be in flight: without idempotence a broker stores batches in any order.
        while queue and queue[0].done:
            queue.popleft()
        self._queued -= 1
        self.acknowledged += batch.count
        self.acknowledged_bytes += batch.size
        if offset >= 0:
            self.offsets[batch.partition] = offset + batch.count - 1
        if batch.records:
            self.on_delivered(batch.count, batch.size, batch.records[0].timestamp)

    async def _recover(self, error: ApiError | ClientError) -> None:
        """Read outstanding responses and drop cached metadata; raise an error that does not
        pass."""
        # A refused password or certificate does not pass, so no retry follows.
        passing = not isinstance(error, Refused)
        if isinstance(error, ApiError):
            passing = error.code in RETRIABLE
        while self._requests:
            try:
                await self._settle(self._requests.popleft())
            except ClientError:
                continue
            except ApiError as other:
                if passing and other.code not in RETRIABLE:
                    error, passing = other, False
        waiting = [queue[0] for queue in self._queues.values() if queue]
        oldest = min((batch.first_sent for batch in waiting if batch.first_sent), default=None)
        now = self.client.transport.now()
        if not passing or (oldest is not None and now - oldest > self.client.retry_seconds):
            raise error
        if oldest is None and isinstance(error, ClientError) and not self.client.patient:
            raise error
        self.client.on_retry(error)
        self.client.known = None
