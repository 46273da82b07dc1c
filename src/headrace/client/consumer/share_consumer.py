"""A share group member's consumer (KIP-932): fetch acquired records, acknowledge them.

Each broker that leads assigned partitions has a share session, in which a request names only
changed partitions. Records that `poll` returns are the member's until `acknowledge`; unacknowledged
ones are delivered again after their acquisition lock expires or `close` releases them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from headrace.client.calls.call import HotCall, check, error_code
from headrace.client.calls.fetch import Fetched
from headrace.client.calls.metadata import Metadata
from headrace.client.client import Client
from headrace.client.consumer.consumer import Chunk
from headrace.client.consumer.share_member import ShareMember
from headrace.client.transport.port import ClientError, ConnectionLost, Link
from headrace.model.errors import ApiError, HeadraceError
from headrace.model.nouns import TopicPartition
from headrace.record.record import Record
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.hot import share_acknowledge, share_fetch
from headrace.wire.kafka.hot.share_common import AckBatch, AskedPartition, AskedTopic

RECORDS_MAX = 500
"""Maximum records of one fetch, the default of Kafka's `max.poll.records`."""
_GAP, _ACCEPT = 0, 1
_FINAL_EPOCH = -1
_BYTES_MAX = 50 << 20

TopicPart = tuple[bytes, int]
"""Topic id and partition number."""


class _Session:
    """A share session with one broker: its connection, its epoch and its partitions."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.epoch = 0
        self.parts: frozenset[TopicPart] = frozenset()


class ShareChunk:
    """Records of one partition that this member has acquired until their lock expires."""

    def __init__(
        self,
        topic_id: bytes,
        session: _Session,
        acquired: Sequence[tuple[int, int, int]],
        chunk: Chunk,
    ) -> None:
        """Wrap fetched batches with the ranges acquired in them.

        `acquired`: first offset, last offset and delivery count of each range, at least one range.
        `chunk`: the batches, which may hold other records, too.
        """
        self.topic_id = topic_id
        self.session = session
        self.acquired = acquired
        self._chunk = chunk
        self._there: set[int] = set()

    @property
    def partition(self) -> TopicPartition:
        """The partition that holds the records."""
        return self._chunk.partition

    @property
    def position(self) -> int:
        """The first acquired offset."""
        return self.acquired[0][0]

    @property
    def next_position(self) -> int:
        """The offset after the last acquired one."""
        return self.acquired[-1][1] + 1

    def records(self) -> Iterator[Record]:
        """Yield the acquired records. CorruptLogError on a wrong checksum."""
        ranges = iter(self.acquired)
        first, last, _ = next(ranges)
        for record in self._chunk.records():
            while record.offset > last:
                following = next(ranges, None)
                if following is None:
                    return
                first, last, _ = following
            if record.offset >= first:
                self._there.add(record.offset)
                yield record

    def record_lists(self) -> Iterator[list[Record]]:
        """Yield the acquired records, one in each list: there are few."""
        for record in self.records():
            yield [record]

    def acknowledgements(self, following: int) -> list[AckBatch]:
        """Return the acknowledgements of acquired offsets below `following`.

        Records that `records` has yielded are accepted; the other offsets are gaps without a
        record.
        """
        batches = []
        for first, last, _ in self.acquired:
            offsets = range(first, min(last + 1, following))
            if offsets:
                kinds = [_ACCEPT if offset in self._there else _GAP for offset in offsets]
                is_alike = len(set(kinds)) == 1
                batches.append(AckBatch(first, offsets[-1], kinds[:1] if is_alike else kinds))
        return batches


class ShareConsumer:
    """Fetches a share group's records for one member, leader by leader. Not thread-safe."""

    def __init__(self, client: Client, member: ShareMember) -> None:
        self.client = client
        self.member = member
        self._sessions: dict[int, _Session] = {}
        self._turn = 0

    async def poll(
        self, *, max_wait_ms: int = 500, records_max: int = RECORDS_MAX
    ) -> list[ShareChunk]:
        """Fetch the next records, at most `records_max`, waiting up to `max_wait_ms` for the first.

        Returns at most one chunk a partition. ApiError if only errors came for the client's
        `retry_seconds`.
        """
        await self.member.heartbeat()

        async def attempt() -> list[ShareChunk]:
            known, by_leader = await self._by_leader()
            if not by_leader:
                await self.client.transport.sleep(max_wait_ms / 1000)
            chunks: list[ShareChunk] = []
            left = records_max
            for leader in self._in_turn(by_leader):
                # Only a single leader may wait the full time: records from the other leaders would
                # be delayed.
                wait_ms = 0 if chunks else max_wait_ms // len(by_leader)
                parts = frozenset(by_leader[leader])
                try:
                    chunks += await self._fetch(known, leader, parts, wait_ms, left)
                except (ApiError, ClientError):
                    self._sessions.pop(leader, None)
                    if not chunks:
                        raise
                    # These records are acquired: the caller gets them first, and meets the error at
                    # its next poll.
                    self.client.known = None
                    break
                left = records_max - sum(_size(chunk) for chunk in chunks)
                if left <= 0:
                    break
            return chunks

        if not self.member.assignment:
            await self.client.transport.sleep(max_wait_ms / 1000)
            return []
        return await self.client.retrying(attempt)

    async def acknowledge(
        self, settled: Sequence[tuple[ShareChunk, int]]
    ) -> dict[TopicPartition, HeadraceError]:
        """Accept the records of each chunk below its given offset.

        Returns the error of each partition where that failed: its records are delivered again.
        """
        failed: dict[TopicPartition, HeadraceError] = {}
        for session in {id(chunk.session): chunk.session for chunk, _ in settled}.values():
            mine = [(chunk, end) for chunk, end in settled if chunk.session is session]
            failed |= await self._settle(session, mine, session.epoch)
        return failed

    async def close(
        self, settled: Sequence[tuple[ShareChunk, int]]
    ) -> dict[TopicPartition, HeadraceError]:
        """Accept records as `acknowledge` does, release all others acquired here and leave the
        group.

        Returns the error of each partition where accepting failed. ApiError or ClientError if
        leaving failed.
        """
        failed: dict[TopicPartition, HeadraceError] = {}
        for session in self._sessions.values():
            mine = [(chunk, end) for chunk, end in settled if chunk.session is session]
            failed |= await self._settle(session, mine, _FINAL_EPOCH)
        self._sessions.clear()
        await self.member.leave()
        return failed

    # requests

    async def _by_leader(self) -> tuple[Metadata, dict[int, set[TopicPart]]]:
        """Return the metadata used, and the assigned partitions by their leader's broker id.

        Closes the share sessions with brokers that lead none of them.
        """
        known = self.client.known
        names = {} if known is None else _names(known)
        if known is None or not {topic_id for topic_id, _ in self.member.assignment} <= set(names):
            known = await self.client.metadata(self.member.topics)
            names = _names(known)
        by_leader: dict[int, set[TopicPart]] = {}
        for topic_id, partition in self.member.assignment:
            if topic_id in names:  # A deleted topic stays assigned for a while.
                leader = known.leader(names[topic_id], partition)
                by_leader.setdefault(leader, set()).add((topic_id, partition))
        for gone in self._sessions.keys() - by_leader.keys():
            await self._settle(self._sessions.pop(gone), (), _FINAL_EPOCH)
        return known, by_leader

    def _in_turn(self, leaders: Iterable[int]) -> list[int]:
        """Return the leaders, rotated at each call, as the first may return all records wanted."""
        order = sorted(leaders)
        self._turn += 1
        at = self._turn % max(len(order), 1)
        return order[at:] + order[:at]

    async def _fetch(
        self,
        known: Metadata,
        leader: int,
        parts: frozenset[TopicPart],
        max_wait_ms: int,
        records_max: int,
    ) -> list[ShareChunk]:
        link = await self.client.broker(leader)
        session = self._sessions.get(leader)
        if session is None or session.link is not link:
            session = self._sessions[leader] = _Session(link)
        added = dict.fromkeys(parts - session.parts, ())
        gone = _by_topic(dict.fromkeys(session.parts - parts, ()))
        request = share_fetch.ShareFetchRequest(
            self.member.group,
            self.member.member_id,
            session.epoch,
            max_wait_ms,
            1,
            _BYTES_MAX,
            records_max,
            records_max,
            acquire_mode=int(records_max < RECORDS_MAX),
            topics=[AskedTopic(*topic) for topic in _by_topic(added).items()],
            forgotten=[
                share_fetch.ForgottenTopic(topic_id, [part.partition for part in asked])
                for topic_id, asked in gone.items()
            ],
        )
        call = HotCall(
            ApiKey.SHARE_FETCH, share_fetch.encode_request, share_fetch.decode_response, request
        )
        response = await self.client.ask(link, call, wait_seconds=max_wait_ms / 1000)
        check(response.error_code, response.error_message)
        session.epoch += 1
        session.parts = parts
        return _chunks(response, _names(known), session)

    async def _settle(
        self, session: _Session, settled: Iterable[tuple[ShareChunk, int]], epoch: int
    ) -> dict[TopicPartition, HeadraceError]:
        """Send the acknowledgements in one request; return the error of each partition that
        failed."""
        names: dict[TopicPart, TopicPartition] = {}
        acks: dict[TopicPart, Sequence[AckBatch]] = {}
        for chunk, following in settled:
            part = chunk.topic_id, chunk.partition.partition
            names[part] = chunk.partition
            acks[part] = chunk.acknowledgements(following)
        if not any(acks.values()) and epoch != _FINAL_EPOCH:
            return {}
        request = share_acknowledge.ShareAcknowledgeRequest(
            self.member.group,
            self.member.member_id,
            epoch,
            topics=[AskedTopic(*topic) for topic in _by_topic(acks).items()],
        )
        call = HotCall(
            ApiKey.SHARE_ACKNOWLEDGE,
            share_acknowledge.encode_request,
            share_acknowledge.decode_response,
            request,
        )
        try:
            # The broker has released all records that were acquired in this session.
            if session.link.closed:
                raise ConnectionLost(f"{session.link.address}: connection lost")
            response = await self.client.ask(session.link, call)
            check(response.error_code, response.error_message)
        except (ApiError, ClientError) as error:
            # The share session ends with its connection, and the broker releases the acquired
            # records.
            session.link.close()
            return dict.fromkeys(names.values(), error)
        session.epoch += 1
        return {
            names[topic.topic_id, answer.partition]: ApiError(
                error_code(answer.error_code), answer.error_message
            )
            for topic in response.topics
            for answer in topic.partitions
            if answer.error_code
        }


def _chunks(
    response: share_fetch.ShareFetchResponse, names: Mapping[bytes, str], session: _Session
) -> list[ShareChunk]:
    """Convert a ShareFetch response to chunks; ApiError of a partition if no partition has
    records."""
    chunks: list[ShareChunk] = []
    failure: ApiError | None = None
    for topic in response.topics:
        for given in topic.partitions:
            partition = TopicPartition(names.get(topic.topic_id, "?"), given.partition)
            if given.error_code:
                failure = _refused(partition, given.error_code, given.error_message)
            elif given.acquired:
                records = memoryview(b"".join(given.records or ()))
                fetched = Fetched(*partition, 0, -1, -1, -1, (), records)
                batches = Chunk(partition, given.acquired[0][0], fetched, read_committed=False)
                chunks.append(ShareChunk(topic.topic_id, session, given.acquired, batches))
    if failure is not None and not chunks:
        raise failure
    return chunks


def _refused(partition: TopicPartition, code: int, message: str | None) -> ApiError:
    name = error_code(code)
    said = message or name.name.lower().replace("_", " ")
    return ApiError(name, f"{partition} cannot be read: {said}")


def _names(known: Metadata) -> dict[bytes, str]:
    return {topic.topic_id: name for name, topic in known.topics.items() if not topic.error_code}


def _size(chunk: ShareChunk) -> int:
    return sum(last - first + 1 for first, last, _ in chunk.acquired)


def _by_topic(parts: Mapping[TopicPart, Sequence[AckBatch]]) -> dict[bytes, list[AskedPartition]]:
    found: dict[bytes, list[AskedPartition]] = {}
    for (topic_id, partition), acks in sorted(parts.items()):
        found.setdefault(topic_id, []).append(AskedPartition(partition, acks))
    return found
