"""The fetch of a ShareFetch request: load, look, read from the disk, wait, look again.

    LOOKING --enough, nothing cold--> acquire --> OVER
       | ^ +--cold data--> READING --> acquire --> OVER, or LOOKING if nothing was acquired
       v |
    WAITING: for records, the deadline, or a turn of the event loop

Looking changes nothing: records are acquired only when the answer is about to be sent, so a client
that disconnects while it waits holds none.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from headrace.coordination.share.keys import ShareKey
from headrace.coordination.share.sessions import SessionKey, TopicPart
from headrace.coordination.share.share_partition import SharePartition
from headrace.delivery.partition_delivery import Look, Taken
from headrace.frontends.long_poll import LongPoll
from headrace.log.segment.batch_reader import NeedsDisk, ReadResult
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import Offset
from headrace.ports.callbacks import Done, when_all

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.coordination.share.share_partitions import SharePartitions
    from headrace.frontends.kafka.connection.throttle import Throttle
    from headrace.net.pending import Pending
    from headrace.ports.deadlines import Deadlines

_ROUNDS_MAX = 8
"""Consecutive looks that acquire nothing (markers and gaps) before others have a turn."""
_TOLD = frozenset({
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.UNKNOWN_SERVER_ERROR,
})  # fmt: skip
"""Errors of a partition that clients handle; others are left out, and the client fetches again."""


class Fetched(NamedTuple):
    """A share partition's result in a ShareFetch: acquired records, or an error."""

    taken: Taken | None = None
    error: ApiError | None = None

    @property
    def is_nothing(self) -> bool:
        """Whether there are neither acquired records nor an error."""
        return self.error is None and (self.taken is None or not self.taken.acquired)


Seen = tuple[TopicPart, SharePartition, Look]


class ReadingState(Enum):
    LOOKING = "looking"
    """The request looks for records; also the state before the first look."""
    READING = "reading"
    """A thread reads from the disk; wake-ups meanwhile are regarded after it."""
    WAITING = "waiting"
    """The request waits for records, the deadline or its turn; only these start a look."""
    OVER = "over"
    """`done` was called."""


class ShareReading:
    """The fetch of one request, from `begin` to `done`, unless the client disconnects."""

    def __init__(
        self,
        broker: "Broker",
        share_partitions: "SharePartitions",
        deadlines: "Deadlines",
        pending: "Pending",
        key: SessionKey,
        parts: Sequence[TopicPart],
        *,
        bytes_min: int,
        bytes_max: int,
        records_max: int,
        exactly: bool,
        wait_seconds: float,
        done: Done[dict[TopicPart, Fetched]],
        throttle: "Throttle | None" = None,
        check: Callable[[bytes], None] | None = None,
    ) -> None:
        """Create the reading of one ShareFetch request.

        `throttle` has the client's quotas; None: no quota is set.

        `check` raises ApiError for topics, by id, that the client may not read.
        """
        self._check = check
        self.wait_ms = 0
        """Throttle time in ms; if not 0, no records are acquired."""
        self._throttle = throttle
        self._broker = broker
        self._share_partitions = share_partitions
        self._deadlines = deadlines
        self._pending = pending
        self._key = key
        self._parts = parts
        self._bytes_max = bytes_max if throttle is None else throttle.fetch_bytes_max(bytes_max)
        self._bytes_min = min(bytes_min, self._bytes_max)
        self._records_max = records_max
        self._exactly = exactly
        self._wait_seconds = wait_seconds
        self._done = done
        self._found: dict[TopicPart, Fetched] = {}
        self._poll: LongPoll | None = None
        self._state = ReadingState.LOOKING
        self._is_last = False
        """Whether the deadline has passed: the request waits no longer."""
        self._began = broker.clock.monotonic()

    def begin(self) -> None:
        """Load all share partitions, then look for records."""

        def all_loaded() -> None:
            if not self._pending.done:
                self._go(0)

        loaded = when_all(len(self._parts), all_loaded)
        for part in self._parts:
            try:
                self._share_partition(part).when_loaded(loaded)
            except ApiError:
                loaded()  # answered when it is looked at

    def _share_partition(self, part: TopicPart) -> SharePartition:
        if self._check is not None:
            self._check(part[0])
        return self._share_partitions.get(ShareKey(self._key.group, *part))

    def _go(self, rounds: int) -> None:
        """Look for records to acquire; then acquire them, read from the disk, wait, or answer."""
        self._state = ReadingState.LOOKING
        self._found = {}
        looks, size = self._look()
        failed = any(found.error is not None for found in self._found.values())
        last = self._is_last or self._wait_seconds <= 0 or self._bytes_min <= 0
        if looks and (size >= self._bytes_min or failed or last or _cold(looks)):
            if _cold(looks):
                self._read(looks, rounds)
            else:
                self._take(
                    [(part, shared, look, _data(look)) for part, shared, look in looks], rounds
                )
        elif failed or last or not self._parts:
            self._finish()
        else:
            self._wait()

    def _look(self) -> tuple[list[Seen], int]:
        """Return the records that may be acquired, within the limits, and their size in bytes.

        Acquires none. Stores the errors to report in `_found`.
        """
        looks: list[Seen] = []
        size, records = 0, 0
        for part in self._parts:
            if size and (records >= self._records_max or size >= self._bytes_max):
                break
            try:
                shared = self._share_partition(part)
                look = shared.look(self._bytes_max - size, self._records_max, at_least_one=not size)
            except ApiError as error:
                if error.code in _TOLD:
                    self._found[part] = Fetched(error=error)
                continue
            if look is None:
                continue
            if isinstance(look.found, NeedsDisk):
                looks.append((part, shared, look))
                break  # one cold partition at a time: the next fetch begins with another
            if len(look.found.data):
                looks.append((part, shared, look))
                size += len(look.found.data)
                records += look.found.next_offset - look.at
        return looks, size

    def _read(self, looks: list[Seen], rounds: int) -> None:
        """Read cold partitions on a thread, then acquire records."""
        self._state = ReadingState.READING
        bytes_max = self._bytes_max

        def work() -> list[ReadResult | ApiError]:
            results: list[ReadResult | ApiError] = []
            for _, shared, look in looks:
                if isinstance(look.found, ReadResult):
                    results.append(look.found)
                    continue
                try:
                    log = shared.partition.log
                    at, below = Offset(look.at), Offset(look.below)
                    limit = shared.delivery.bytes_wanted(bytes_max, self._records_max)
                    results.append(log.read_from_disk(at, limit, below=below, at_least_one=True))
                except ApiError as error:
                    results.append(error)
            return results

        def done(outcome: "list[ReadResult | ApiError] | BaseException") -> None:
            if self._pending.done:
                return
            self._state = ReadingState.LOOKING
            if isinstance(outcome, BaseException):
                # The segment was deleted during the read: by retention, or with its topic.
                outcome = [ApiError(ErrorCode.KAFKA_STORAGE_ERROR)] * len(looks)
            whole = []
            for (part, shared, look), result in zip(looks, outcome, strict=True):
                if isinstance(result, ApiError):
                    self._found[part] = Fetched(error=result)
                else:
                    whole.append((part, shared, look, result))
            self._take(whole, rounds)

        self._broker.disk.run(work, done)

    def _take(
        self, looks: list[tuple[TopicPart, SharePartition, Look, ReadResult]], rounds: int
    ) -> None:
        """Acquire records from the data that was read; look again if there are none."""
        size = sum(len(result.data) for _, _, _, result in looks)
        if not self._within_quota(size):
            self._found = {}
            self._finish()
            return
        left = self._records_max
        for part, shared, look, result in looks:
            if left <= 0:
                break
            taken = shared.take(
                look, result, self._key.member, records_max=left, exactly=self._exactly
            )
            if taken.acquired:
                self._found[part] = Fetched(taken)
                left -= sum(got.last - got.first + 1 for got in taken.acquired)
                size -= sum(map(len, taken.records))
        if self._throttle is not None:
            self._throttle.not_sent(size)
        if left < self._records_max or self._found:
            self._finish()
        elif rounds < _ROUNDS_MAX:
            self._go(rounds + 1)
        elif self._is_last:
            self._finish()
        else:
            self._state = ReadingState.WAITING
            self._broker.clock.call_later(0, self._look_again)

    def _within_quota(self, size: int) -> bool:
        """Count `size` bytes before records are acquired, as acquired ones must be sent."""
        if self._throttle is not None and size:
            self.wait_ms = self._throttle.fetched(size)
        return not self.wait_ms

    # Waiting

    def _wait(self) -> None:
        self._state = ReadingState.WAITING
        if self._poll is None:
            waited = self._broker.clock.monotonic() - self._began
            self._poll = LongPoll(
                self._broker.clock,
                self._deadlines,
                self._pending,
                seconds=max(self._wait_seconds - waited, 0.0),
                bytes_min=self._bytes_min,
                look=self._look_again,
                expire=self._give_up_waiting,
            )
        for part in self._parts:
            try:
                share_partition = self._share_partition(part)
            except ApiError:
                continue
            self._poll.watch((share_partition.delivery,))

    def _look_again(self) -> None:
        if self._state is ReadingState.WAITING and not self._pending.done:
            self._go(0)

    def _give_up_waiting(self) -> None:
        """Answer with the available records, or those being read: the wait is over."""
        self._is_last = True
        self._look_again()

    def _finish(self) -> None:
        self._state = ReadingState.OVER
        if self._poll is not None:
            self._poll.end()
        self._done(self._found)


def _cold(looks: list[Seen]) -> bool:
    return any(isinstance(look.found, NeedsDisk) for _, _, look in looks)


def _data(look: Look) -> ReadResult:
    if isinstance(look.found, NeedsDisk):
        return ReadResult(b"", Offset(look.at))
    return look.found
