"""Reading as a member of a share group (KIP-932): records that are the member's own for a while.

Each broker that leads assigned partitions has a session: partitions are named once, then only
changes. What `poll` hands out is settled by `acknowledge`; what is not comes to somebody again,
when its lock has run out or `close` has given it back.
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
"""Records of one fetch, as Kafka's own client has it (`max.poll.records`)."""
_GAP, _ACCEPT = 0, 1
_FINAL_EPOCH = -1
_BYTES_MAX = 50 << 20

TopicPart = tuple[bytes, int]
"""Topic id and partition."""


class _Session:
    """Of one broker: which partitions are fetched there, on which connection."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.epoch = 0
        self.parts: frozenset[TopicPart] = frozenset()


class ShareChunk:
    """Records of one partition that are this member's until their lock runs out."""

    def __init__(
        self,
        topic_id: bytes,
        session: _Session,
        acquired: Sequence[tuple[int, int, int]],
        chunk: Chunk,
    ) -> None:
        """`acquired`: first and last offset, and how often they were delivered, at least one.

        `chunk`: the batches they are in, with records that are not meant.
        """
        self.topic_id = topic_id
        self.session = session
        self.acquired = acquired
        self._chunk = chunk
        self._there: set[int] = set()

    @property
    def partition(self) -> TopicPartition:
        """Whose records they are."""
        return self._chunk.partition

    @property
    def position(self) -> int:
        """The first offset that is the member's."""
        return self.acquired[0][0]

    @property
    def next_position(self) -> int:
        """The offset behind the last that is the member's."""
        return self.acquired[-1][1] + 1

    def records(self) -> Iterator[Record]:
        """Yield the records that are the member's. CorruptLogError where a checksum is wrong."""
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
        """Yield the same, each in a list: they are few."""
        for record in self.records():
            yield [record]

    def acknowledgements(self, following: int) -> list[AckBatch]:
        """Accept what `records` has yielded below `following`; other offsets have no record."""
        batches = []
        for first, last, _ in self.acquired:
            offsets = range(first, min(last + 1, following))
            if offsets:
                kinds = [_ACCEPT if offset in self._there else _GAP for offset in offsets]
                is_alike = len(set(kinds)) == 1
                batches.append(AckBatch(first, offsets[-1], kinds[:1] if is_alike else kinds))
        return batches


class ShareConsumer:
    """Fetches what a share group has for its member, turn by turn. Not for several threads."""

    def __init__(self, client: Client, member: ShareMember) -> None:
        self.client = client
        self.member = member
        self._sessions: dict[int, _Session] = {}
        self._turn = 0

    async def poll(
        self, *, max_wait_ms: int = 500, records_max: int = RECORDS_MAX
    ) -> list[ShareChunk]:
        """Fetch the next records, `records_max` at most, waiting a while for the first.

        At most one chunk of each partition. ApiError where there were errors alone for the
        client's `retry_seconds`.
        """
        await self.member.heartbeat()

        async def attempt() -> list[ShareChunk]:
            known, by_leader = await self._by_leader()
            if not by_leader:
                await self.client.transport.sleep(max_wait_ms / 1000)
            chunks: list[ShareChunk] = []
            left = records_max
            for leader in self._in_turn(by_leader):
                # Only a single broker may wait that long: the others' records would wait with it.
                wait_ms = 0 if chunks else max_wait_ms // len(by_leader)
                parts = frozenset(by_leader[leader])
                try:
                    chunks += await self._fetch(known, leader, parts, wait_ms, left)
                except (ApiError, ClientError):
                    self._sessions.pop(leader, None)
                    if not chunks:
                        raise
                    # They are ours, and our caller's first. What is wrong is met again then.
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
        """Accept each chunk's records below the offset beside it.

        Returns the partitions where that failed: their records are delivered again.
        """
        failed: dict[TopicPartition, HeadraceError] = {}
        for session in {id(chunk.session): chunk.session for chunk, _ in settled}.values():
            mine = [(chunk, end) for chunk, end in settled if chunk.session is session]
            failed |= await self._settle(session, mine, session.epoch)
        return failed

    async def close(
        self, settled: Sequence[tuple[ShareChunk, int]]
    ) -> dict[TopicPartition, HeadraceError]:
        """Accept as `acknowledge`, give back all else that this member holds, and leave.

        ApiError, ClientError where the group could not be left.
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
        """Return who leads what is assigned; brokers that lead none of it forget the member."""
        known = self.client.known
        names = {} if known is None else _names(known)
        if known is None or not {topic_id for topic_id, _ in self.member.assignment} <= set(names):
            known = await self.client.metadata(self.member.topics)
            names = _names(known)
        by_leader: dict[int, set[TopicPart]] = {}
        for topic_id, partition in self.member.assignment:
            if topic_id in names:  # a topic that was deleted is assigned for a while longer
                leader = known.leader(names[topic_id], partition)
                by_leader.setdefault(leader, set()).add((topic_id, partition))
        for gone in self._sessions.keys() - by_leader.keys():
            await self._settle(self._sessions.pop(gone), (), _FINAL_EPOCH)
        return known, by_leader

    def _in_turn(self, leaders: Iterable[int]) -> list[int]:
        """Return the leaders, another one first each time: it may have all that is wanted."""
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
        """Acknowledge in one request; returns the partitions where it failed."""
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
            if session.link.closed:  # the broker has given back all that was held there
                raise ConnectionLost(f"{session.link.address}: connection lost")
            response = await self.client.ask(session.link, call)
            check(response.error_code, response.error_message)
        except (ApiError, ClientError) as error:
            # With its connection the session ends, and the broker gives back what was held.
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
    """Return what a fetch gave; ApiError of a partition where none gave anything."""
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
