"""Fetch (key 1, v4-v18): records that are safe to see, as the bytes they were written in.

* A consumer sees nothing at or beyond the high watermark; with isolation level 1 nothing at or
  beyond the last stable offset, and is told which transactions were aborted.
* At least one batch is given, whatever the limits, if there is one: else a large one would block.
* With less than `min_bytes` there, the answer waits up to `max_wait_ms`; any error answers at once.
* What is not in the page cache is read on a thread. Damaged bytes are never given.
* Much data is named here and read while it is sent (`log.ranges`); a log can change meanwhile, so
  such an answer comes whole or its connection ends.
* A follower's fetch (replica id >= 0) is refused: there is no cluster yet.

v4 isolation · v5 log start offset · v7 sessions · v9 leader epoch · v12 flexible · v13 topic ids
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headrace.frontends.kafka.connection.handler import Answer, RequestContext
from headrace.frontends.kafka.fetch.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    FetchSession,
    Key,
    keys_of,
)
from headrace.log.log import NeedsDisk, Served
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import Offset
from headrace.net.pending import Pending
from headrace.wire.kafka.hot.fetch import FetchPartition, FetchRequest, decode_request
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
    from headrace.ports.file_ranges import Part

READ_COMMITTED = 1
_TOPIC_IDS_FROM = 13
_GATHER_SECONDS = 0.002
"""How long records gather before a fetch that wants many of them looks again."""


def handle(context: RequestContext, body: memoryview) -> Answer:
    """Answer one Fetch request."""
    version = context.version
    request = decode_request(version, body)
    sessions = context.shared.fetch_sessions
    session: FetchSession | None = None
    if request.session_epoch == FINAL_EPOCH:
        sessions.close(request.session_id)
        wanted = keys_of(version, request)
    elif request.session_epoch == INITIAL_EPOCH:
        session = sessions.open(version, request)
        wanted = keys_of(version, request)
    else:
        try:
            session = sessions.resume(version, request)
        except ApiError as error:
            return encode_response(version, FetchResponse(error_code=error.code))
        wanted = [(key, partition.asked) for key, partition in session.partitions.items()]
    throttle = context.throttle if context.broker.quotas.active else None
    fetch = _Fetch(context.broker, context.shared, version, request, session, wanted, throttle)
    return fetch.begin()


class _Fetch:
    """One request from its first look at the logs to its answer."""

    def __init__(
        self,
        broker: "Broker",
        shared: "Shared",
        version: int,
        request: FetchRequest,
        session: FetchSession | None,
        wanted: Sequence[tuple[Key, FetchPartition]],
        throttle: "Throttle | None" = None,
    ) -> None:
        self.broker = broker
        self.deadlines = shared.deadlines
        self.version = version
        self.request = request
        self.session = session
        self.wanted = wanted
        self.read_committed = request.isolation_level == READ_COMMITTED
        self.bytes_max = max(0, min(request.max_bytes, broker.config.fetch_max_bytes))
        self.throttle = throttle
        if throttle is not None:
            self.bytes_max = throttle.fetch_bytes_max(self.bytes_max)
        self.pending: Pending | None = None
        self.results: list[FetchedPartition] = []
        self.partitions: list[Partition | None] = []
        self.cold: list[int] = []
        self.size = 0
        self.failed = False
        self._watches: list[Callable[[], None]] = []
        self._woken = False

    def begin(self) -> Answer:
        """Answer at once if that is possible."""
        self._look()
        if self.cold:
            self.pending = Pending(alone=True)
            self._read_cold()
            return self.pending
        if self._satisfied() or self.request.max_wait_ms <= 0:
            return self._encode()
        self.pending = Pending(alone=True)
        self.pending.on_abandon = self._stop_waiting
        self._watch()
        wait = self.request.max_wait_ms / 1000
        self.deadlines.add(self.pending, wait, self._give_up_waiting)
        return self.pending

    def _satisfied(self) -> bool:
        return self.failed or self.size >= self.request.min_bytes or not self.wanted

    # looking

    def _look(self) -> None:
        """Read every partition as far as the page cache and the limits allow."""
        self.results = []
        self.partitions = []
        self.cold = []
        self.size = 0
        for at, (key, asked) in enumerate(self.wanted):
            partition: Partition | None = None
            try:
                partition = self._partition(key)
                partition.check_epoch(asked.current_leader_epoch)
                result = self._read(at, partition, asked)
            except ApiError as error:
                self.failed = True
                result = FetchedPartition(asked.partition, error.code)
            self.results.append(result)
            self.partitions.append(partition)

    def _partition(self, key: Key) -> "Partition":
        if self.request.replica_id >= 0:
            # Reading for replication reaches beyond the high watermark: not for strangers.
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        topic, index = key
        if isinstance(topic, bytes):
            return self.broker.partition_by_id(topic, index)
        return self.broker.partition(topic, index)

    def _read(self, at: int, partition: "Partition", asked: FetchPartition) -> FetchedPartition:
        limit = min(asked.max_bytes, self.bytes_max - self.size)
        found = partition.serve(
            Offset(asked.fetch_offset),
            max(limit, 0),
            read_committed=self.read_committed,
            at_least_one=self.size == 0,
        )
        if isinstance(found, NeedsDisk):
            self.cold.append(at)
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
                    AbortedTransaction(one.producer_id, one.first_offset)
                    for one in partition.log.aborted_transactions(
                        Offset(asked.fetch_offset), found.next_offset
                    )
                ]
        return FetchedPartition(
            asked.partition,
            0,
            partition.high_watermark,
            partition.last_stable_offset,
            partition.log.start_offset,
            data,
            aborted,
        )

    # what the page cache does not hold

    def _read_cold(self) -> None:
        """Read the partitions that need the disk on a thread, then answer."""
        jobs = []
        for at in self.cold:
            partition, asked = self.partitions[at], self.wanted[at][1]
            if partition is not None:
                below = partition.readable_end(self.read_committed)
                jobs.append((at, partition, asked, below))
        budget = self.bytes_max - self.size
        first = self.size == 0

        def work() -> list[tuple[int, Served | ApiError]]:
            left, at_least_one = budget, first
            found: list[tuple[int, Served | ApiError]] = []
            for at, partition, asked, below in jobs:
                try:
                    result = partition.log.serve_from_disk(
                        Offset(asked.fetch_offset),
                        max(min(asked.max_bytes, left), 0),
                        below=below,
                        at_least_one=at_least_one,
                    )
                except ApiError as error:
                    found.append((at, error))
                    continue
                found.append((at, result))
                left -= len(result.data)
                at_least_one = at_least_one and not result.data
            return found

        self.broker.disk.run(work, self._cold_read)

    def _cold_read(self, outcome: "list[tuple[int, Served | ApiError]] | BaseException") -> None:
        pending = self.pending
        if pending is None or pending.done:
            return
        if isinstance(outcome, BaseException):
            # The segment went while it was read: retention, or the topic's deletion.
            outcome = [(at, ApiError(ErrorCode.KAFKA_STORAGE_ERROR)) for at in self.cold]
        for at, found in outcome:
            partition, asked = self.partitions[at], self.wanted[at][1]
            if isinstance(found, ApiError):
                self.results[at] = FetchedPartition(asked.partition, found.code)
            elif partition is not None:
                self.results[at] = self._result(partition, asked, found.data, found)
        pending.resolve(self._encode())

    # waiting

    def _watch(self) -> None:
        for partition in self.partitions:
            if partition is not None:
                self._watches.append(partition.watch(self._wake))

    def _stop_waiting(self) -> None:
        watches, self._watches = self._watches, []
        for cancel in watches:
            cancel()

    def _wake(self) -> None:
        """More may be readable: look again when this turn is over, or when more has gathered."""
        if not self._woken:
            self._woken = True
            later = 0.0 if self.request.min_bytes <= 1 else _GATHER_SECONDS
            self.broker.clock.call_later(later, self._look_again)

    def _look_again(self) -> None:
        self._woken = False
        if self.pending is None or self.pending.done:
            return
        self._look()
        if self.cold:
            self._stop_waiting()
            self._read_cold()
        elif self._satisfied():
            self._answer()

    def _give_up_waiting(self) -> None:
        """The wait is over: answer with what there is."""
        if self.request.min_bytes > 1 or self._woken:
            self._look()
        if self.cold:
            self._stop_waiting()
            self._read_cold()
        else:
            self._answer()

    def _answer(self) -> None:
        self._stop_waiting()
        if self.pending is not None:
            self.pending.resolve(self._encode())

    # the answer

    def _encode(self) -> "list[Part]":
        session = self.session
        if self.throttle is not None:
            wait_ms = self.throttle.fetched(sum(len(one.records or b"") for one in self.results))
            if wait_ms:  # nothing is given, and the session stays as the client knows it
                session_id = 0 if session is None else session.session_id
                return encode_response(self.version, FetchResponse(wait_ms, 0, session_id, []))
        by_topic: dict[str | bytes, list[FetchedPartition]] = {}
        incremental = session is not None and self.request.session_epoch != INITIAL_EPOCH
        for (key, _), result in zip(self.wanted, self.results, strict=True):
            if session is not None:
                known = session.partitions.get(key)
                news = known is None or known.is_news(result)
                if result.records:
                    session.had_turn(key)
                if incremental and not news:
                    continue
            by_topic.setdefault(key[0], []).append(result)
        topics = [
            FetchedTopic("", topic, partitions)
            if isinstance(topic, bytes)
            else FetchedTopic(topic, b"", partitions)
            for topic, partitions in by_topic.items()
        ]
        session_id = 0 if session is None else session.session_id
        return encode_response(self.version, FetchResponse(0, 0, session_id, topics))
