"""A partition as those see it who wait for it: for what was appended to hold, for more to read.

The half of `partition.Partition` that tells; the other half decides when.
"""

from collections import deque

from headrace.broker.watchable import Watched
from headrace.log.log import Log
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import Offset
from headrace.ports.callbacks import Done


class AwaitedPartition(Watched):
    """The high watermark of a log, and who is told when it moves or when nothing will any more."""

    __slots__ = (
        "_announced",
        "_announced_start",
        "_refusal",
        "_waiting",
        "high_watermark",
        "log",
    )

    def __init__(self, log: Log, high_watermark: Offset) -> None:
        super().__init__()
        self.log = log
        self.high_watermark = high_watermark
        log.high_watermark = self._announced = high_watermark
        self._announced_start = log.start_offset
        self._refusal: ErrorCode | None = None
        self._waiting: deque[tuple[Offset, Done[ApiError | None]]] = deque()

    def when_committed(self, commit_offset: Offset, callback: Done[ApiError | None]) -> None:
        """Call `callback(None)` once the high watermark has reached `commit_offset`: now if it has.

        Callbacks go out in the order of asking. If the log fails or goes first:
        `callback(ApiError)` with KAFKA_STORAGE_ERROR, NOT_LEADER_OR_FOLLOWER or
        UNKNOWN_TOPIC_OR_PARTITION; what was appended may or may not be there later.
        """
        if self._refusal is not None:
            callback(ApiError(self._refusal))
        elif commit_offset <= self.high_watermark and not self._waiting:
            callback(None)
        else:
            self._waiting.append((commit_offset, callback))
            if commit_offset <= self.high_watermark:
                self._release()

    def close(self, because: ErrorCode) -> None:
        """Serve nothing any more; whoever waits is told `because`. The log is not touched."""
        if self._refusal is not None:
            return
        self._refusal = because
        self.log.unlisten(self)
        waiting, self._waiting = self._waiting, deque()
        for _, callback in waiting:
            callback(ApiError(because))
        self._wake()

    @property
    def refusal(self) -> ErrorCode | None:
        """Why the partition serves nothing any more, or None while it does."""
        return self._refusal

    def _advance(self, upto: Offset) -> None:
        if upto > self.high_watermark:
            self.high_watermark = self.log.high_watermark = upto
            self.log_readable()

    def log_readable(self) -> None:
        """`LogListener`: tell who waits what the high watermark has passed, and of a new start."""
        start = self.log.start_offset
        if self._announced == self.high_watermark and self._announced_start == start:
            return
        self._announced, self._announced_start = self.high_watermark, start
        if self._waiting:
            self._release()
        if self._watchers:
            self._wake()

    def _release(self) -> None:
        # A callback may append and ask again: the queue is read afresh each time.
        while self._waiting and self._waiting[0][0] <= self.high_watermark:
            self._waiting.popleft()[1](None)
