"""A consumer's Fetch request, from the first look at its partitions to the answer.

- At least one batch is returned if there is one, whatever the limits: a large one would block
  otherwise.
- With less than `min_bytes` available the answer waits up to `max_wait_ms`; any error is answered
  at once.
- Data that is not in the page cache is read on a thread. Damaged batches are never returned.
- Much data is returned as a range of a file, and read while it is sent
  (`log.segment.served_ranges`); a log can change meanwhile, so such an answer is sent whole or its
  connection ends.
- Only partitions that may have records are looked at (`wanted_partitions`), with the same result as
  looking at all.
"""

from typing import TYPE_CHECKING

from headrace.frontends.kafka.authentication.authorisation import authorization_failed
from headrace.frontends.kafka.connection.handler import Answer
from headrace.frontends.kafka.fetch.fetch_sessions import INITIAL_EPOCH, FetchSession
from headrace.frontends.kafka.fetch.wanted_partitions import (
    Key,
    WantedPartition,
    WantedPartitions,
    in_turn,
)
from headrace.frontends.long_poll import LongPoll
from headrace.log.log import NeedsDisk, Served
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import Offset
from headrace.net.pending import Pending
from headrace.security.authorizer import Operation, Resource, ResourceType
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.hot.fetch import FetchPartition, FetchRequest
from headrace.wire.kafka.hot.fetch_response import (
    AbortedTransaction,
    FetchedPartition,
    FetchedTopic,
    FetchResponse,
    encode_response,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.broker.partition import Partition
    from headrace.frontends.kafka.connection.hot_state import Shared
    from headrace.frontends.kafka.connection.throttle import Throttle
    from headrace.observe.metrics import TopicTraffic
    from headrace.ports.file_ranges import Part
    from headrace.security.identity import Identity

READ_COMMITTED = 1
FOLLOWERS_FROM = 11
"""The first version in which a consumer may read from followers (KIP-392)."""
LOOK_AGAIN = 1 << 63
"""A readable end that no offset reaches: the next request looks at the partition again."""


class FetchInHand:
    """A consumer's Fetch request in progress; `replica_fetch` has a follower's."""

    __slots__ = (
        "broker", "bytes_max", "cold", "deadlines", "failed", "identity", "incremental", "looked",
        "pending", "poll", "read_committed", "readable_end", "request", "results", "session",
        "size", "throttle", "version", "wanted",
    )  # fmt: skip

    def __init__(
        self,
        broker: "Broker",
        shared: "Shared",
        version: int,
        request: FetchRequest,
        session: FetchSession | None,
        wanted: WantedPartitions,
        identity: "Identity",
        throttle: "Throttle | None" = None,
    ) -> None:
        self.broker = broker
        self.identity = identity
        self.deadlines = shared.deadlines
        self.version = version
        self.request = request
        self.session = session
        self.wanted = wanted
        self.incremental = session is not None and request.session_epoch != INITIAL_EPOCH
        self.read_committed = request.isolation_level == READ_COMMITTED
        self.bytes_max = max(0, min(request.max_bytes, broker.config.fetch_max_bytes))
        self.throttle = throttle
        if throttle is not None:
            self.bytes_max = throttle.fetch_bytes_max(self.bytes_max)
        self.pending: Pending | None = None
        self.poll: LongPoll | None = None
        self.results: dict[WantedPartition, FetchedPartition] = {}
        """Results for the answer, as far as they are known."""
        self.looked: list[tuple[WantedPartition, Partition]] = []
        """Partitions that the last look read."""
        self.cold: list[tuple[WantedPartition, Partition]] = []
        self.size = 0
        self.readable_end = 0
        """Readable end of the partition that was read last."""
        self.failed = False

    def begin(self) -> Answer:
        """Answer at once if possible; else return a pending answer."""
        authorizer = self.broker.authorizer
        who = None if authorizer.allows_all else (self.identity, authorizer.version)
        self.wanted.begin((self.request.replica_id >= 0, self.read_committed, who))
        self._look()
        if self.cold:
            self.pending = Pending(alone=True)
            self._read_cold()
            return self.pending
        if self._satisfied() or self.request.max_wait_ms <= 0:
            return self._encode()
        self.pending = Pending(alone=True)
        self.poll = LongPoll(
            self.broker.clock,
            self.deadlines,
            self.pending,
            seconds=self.request.max_wait_ms / 1000,
            bytes_min=self.request.min_bytes,
            look=self._look_again,
            expire=self._answer_as_it_is,
            on_end=self.wanted.end_wait,
        )
        self.wanted.wait(self.poll)
        self._watch()
        return self.pending

    def _satisfied(self) -> bool:
        return self.failed or self.size >= self.request.min_bytes or not self.wanted.by_key

    # Looking at partitions

    def _look(self) -> None:
        """Read available records, as far as the page cache and the limits allow."""
        wanted, results = self.wanted, self.results
        self.looked = []
        self.cold = []
        self.size = 0
        for entry in wanted.to_look_at():
            try:
                partition = self._partition(entry.key)
                partition.check_epoch(entry.asked.current_leader_epoch)
                result = self._read(entry, partition)
            except ApiError as error:
                self.failed = True
                results[entry] = self._refused(entry, error)
                entry.unwatch()
                continue
            results[entry] = result
            self.looked.append((entry, partition))
            if not result[5] and entry.asked.fetch_offset >= self.readable_end:
                news = entry.has_news(result)
                wanted.quiet(entry, news=news)
                if self.incremental and not news:
                    del results[entry]
        if wanted.kept or wanted.poll is not None:
            self._watch()

    def _watch(self) -> None:
        for entry, partition in self.looked:
            entry.watch(partition, self.wanted)

    def _partition(self, key: Key) -> "Partition":
        topic, index = key
        if not self.broker.authorizer.allows_all:
            self._check_readable(topic)
        try:
            if isinstance(topic, bytes):
                return self.broker.partition_by_id(topic, index)
            return self.broker.partition(topic, index)
        except ApiError as error:
            followed = None
            if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                followed = self._followed(key)
            if followed is None:
                raise
            return followed

    def _followed(self, key: Key) -> "Partition | None":
        """Return the follower replica of a partition on this broker, or None."""
        topic, index = key
        if self.version < FOLLOWERS_FROM:
            return None
        if isinstance(topic, bytes):
            topic = self.broker.image.topics_by_id[topic].name
        return self.broker.followed.get((topic, index))

    def _check_readable(self, topic: str | bytes) -> None:
        """Raise ApiError if the client may not read a topic; a missing topic fails later."""
        if isinstance(topic, bytes):
            known = self.broker.image.topics_by_id.get(topic)
            if known is None:
                return
            topic = known.name
        resource = Resource(ResourceType.TOPIC, topic)
        if not self.broker.authorizer.allows(self.identity, Operation.READ, resource):
            self.broker.audit.refused(self.identity, Operation.READ, resource)
            raise authorization_failed(ResourceType.TOPIC)

    def _read(self, entry: WantedPartition, partition: "Partition") -> FetchedPartition:
        asked = entry.asked
        limit = min(asked.max_bytes, self.bytes_max - self.size)
        found = partition.serve(
            Offset(asked.fetch_offset),
            max(limit, 0),
            read_committed=self.read_committed,
            at_least_one=self.size == 0,
        )
        if isinstance(found, NeedsDisk):
            self.cold.append((entry, partition))
            return self._result(partition, asked, b"", None)
        self.size += len(found.data)
        return self._result(partition, asked, found.data, found)

    def _result(
        self,
        partition: "Partition",
        asked: FetchPartition,
        data: "Part",
        found: Served | None,
    ) -> FetchedPartition:
        aborted: list[AbortedTransaction] | None = None
        if self.read_committed:
            aborted = []
            if found is not None and data:
                aborted = [
                    AbortedTransaction(transaction.producer_id, transaction.first_offset)
                    for transaction in partition.log.aborted_transactions(
                        Offset(asked.fetch_offset), found.next_offset
                    )
                ]
        mark, stable = partition.log.high_watermark, partition.last_stable_offset
        self.readable_end = stable if self.read_committed else mark
        return FetchedPartition(
            asked.partition, 0, mark, stable, partition.log.start_offset, data, aborted
        )

    # Data outside of the page cache

    def _read_cold(self) -> None:
        """Read partitions whose data is not in the page cache, on a thread; then answer."""
        if self.poll is not None:
            self.poll.end()
        jobs = [
            (entry, partition, entry.asked, self._end_for(partition))
            for entry, partition in self.cold
        ]
        budget = self.bytes_max - self.size
        first = self.size == 0

        def work() -> list[Served | ApiError]:
            left, at_least_one = budget, first
            found: list[Served | ApiError] = []
            for _, partition, asked, below in jobs:
                try:
                    result = partition.log.serve_from_disk(
                        Offset(asked.fetch_offset),
                        max(min(asked.max_bytes, left), 0),
                        below=below,
                        at_least_one=at_least_one,
                    )
                except ApiError as error:
                    found.append(error)
                    continue
                found.append(result)
                left -= len(result.data)
                at_least_one = at_least_one and not result.data
            return found

        self.broker.disk.run(work, self._cold_read)

    def _end_for(self, partition: "Partition") -> Offset:
        """Return the offset below which `partition` is read."""
        return partition.readable_end(self.read_committed)

    def _cold_read(self, outcome: "list[Served | ApiError] | BaseException") -> None:
        pending = self.pending
        if pending is None or pending.done:
            return
        if isinstance(outcome, BaseException):
            # The segment was deleted during the read: by retention, or with its topic.
            outcome = [ApiError(ErrorCode.KAFKA_STORAGE_ERROR)] * len(self.cold)
        for (entry, partition), found in zip(self.cold, outcome, strict=True):
            if isinstance(found, ApiError):
                self.results[entry] = self._refused(entry, found)
            else:
                self.results[entry] = self._result(partition, entry.asked, found.data, found)
        pending.resolve(self._encode())

    def _refused(self, entry: WantedPartition, error: ApiError) -> FetchedPartition:
        self.broker.metrics.api(ApiKey.FETCH).failed(error.code)
        return FetchedPartition(entry.asked.partition, error.code)

    # Waiting

    def _look_again(self) -> None:
        self._look()
        if self.cold:
            self._read_cold()
        elif self._satisfied():
            self._answer()

    def _answer_as_it_is(self) -> None:
        """Answer with the available records: the wait is over."""
        self._look()
        if self.cold:
            self._read_cold()
        else:
            self._answer()

    def _answer(self) -> None:
        if self.poll is not None:
            self.poll.end()
        if self.pending is not None:
            self.pending.resolve(self._encode())

    # The answer

    def _encode(self) -> "list[Part]":
        session = self.session
        if self.throttle is not None:
            given = self.results.values()
            wait_ms = self.throttle.fetched(sum(len(result.records or b"") for result in given))
            if wait_ms:  # nothing is returned, and the session keeps its state
                session_id = 0 if session is None else session.session_id
                return encode_response(self.version, FetchResponse(wait_ms, 0, session_id, []))
        self._count_given()
        by_topic: dict[str | bytes, list[FetchedPartition]] = {}
        for entry in in_turn(self.results):
            result = self.results[entry]
            if result.error_code:
                self.broker.metrics.api(ApiKey.FETCH).failed(result.error_code)
            if session is not None:
                if self.incremental and not entry.has_news(result):
                    continue
                self.wanted.told(entry, result)
            by_topic.setdefault(entry.key[0], []).append(result)
        topics = [
            FetchedTopic("", topic, partitions)
            if isinstance(topic, bytes)
            else FetchedTopic(topic, b"", partitions)
            for topic, partitions in by_topic.items()
        ]
        session_id = 0 if session is None else session.session_id
        return encode_response(self.version, FetchResponse(0, 0, session_id, topics))

    def _count_given(self) -> None:
        for entry, partition in self.looked:
            result = self.results.get(entry)
            if result is not None and result.records:
                self._count(partition.traffic, len(result.records))

    def _count(self, traffic: "TopicTraffic", size: int) -> None:
        traffic.bytes_out += size
