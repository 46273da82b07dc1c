"""Who waits for what was appended to hold for good, and what is answered where it never will."""

from collections import deque

from headrace.log.log import Log
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import Offset
from headrace.ports.callbacks import Done


class CommitWaiters:
    """The callers that wait for a log's high watermark, in the order of asking."""

    __slots__ = ("_log", "refusal", "waiting")

    def __init__(self, log: Log, refusal: ErrorCode) -> None:
        self._log = log
        self.waiting: deque[tuple[Offset, Done[ApiError | None], bool]] | None = None
        """None until somebody had to wait: an idle partition needs no room for a queue."""
        self.refusal: ErrorCode | None = refusal
        """Why nothing is served, or None while something is."""

    def move_to(self, log: Log) -> None:
        """Wait for a copy of the log in its place."""
        self._log = log

    def when_committed(
        self,
        commit_offset: Offset,
        callback: Done[ApiError | None],
        while_enough_replicas: bool = False,
    ) -> None:
        """Call `callback(None)` once the high watermark has reached `commit_offset`: now if it has.

        Callbacks go out in the order of asking. If the log fails or goes first, or is led no
        longer: `callback(ApiError)` with KAFKA_STORAGE_ERROR, UNKNOWN_TOPIC_OR_PARTITION or
        NOT_LEADER_OR_FOLLOWER; what was appended may or may not be there later. So for
        NOT_ENOUGH_REPLICAS_AFTER_APPEND, told to those who wait `while_enough_replicas`.
        """
        if self.refusal is not None:
            callback(ApiError(self.refusal))
        elif commit_offset <= self._log.high_watermark and not self.waiting:
            callback(None)
        else:
            if self.waiting is None:
                self.waiting = deque()
            self.waiting.append((commit_offset, callback, while_enough_replicas))
            if commit_offset <= self._log.high_watermark:
                self.release()

    def release(self) -> None:
        """Tell those whose offset the high watermark has reached."""
        # A callback may append and ask again: the queue is read afresh each time.
        while self.waiting and self.waiting[0][0] <= self._log.high_watermark:
            self.waiting.popleft()[1](None)

    def too_few_replicas(self) -> None:
        """Tell those who wait only while enough replicas are in sync that they are not."""
        waiting = self.waiting or ()
        ending = [waiter for waiter in waiting if waiter[2]]
        if ending:
            self.waiting = deque(waiter for waiter in waiting if not waiter[2])
            for _, callback, _ in ending:
                callback(ApiError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND))

    def refuse(self, because: ErrorCode) -> None:
        """Tell those who wait, and all who ask from now on, `because`."""
        self.refusal = because
        waiting, self.waiting = self.waiting, None
        for _, callback, _ in waiting or ():
            callback(ApiError(because))
