"""`CommitWaiters`: callbacks for the moment when appended records are committed, or never will
be."""

from collections import deque

from headrace.log.log import Log
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import Offset
from headrace.ports.callbacks import Done


class CommitWaiters:
    """Callbacks waiting for a log's high watermark, in the order of calls."""

    __slots__ = ("_log", "refusal", "waiting")

    def __init__(self, log: Log, refusal: ErrorCode) -> None:
        self._log = log
        self.waiting: deque[tuple[Offset, Done[ApiError | None], bool]] | None = None
        """None until a callback had to wait, which saves memory for idle partitions."""
        self.refusal: ErrorCode | None = refusal
        """Why nothing is served; None while the partition leads."""

    def move_to(self, log: Log) -> None:
        """Wait for a copy of the log instead."""
        self._log = log

    def when_committed(
        self,
        commit_offset: Offset,
        callback: Done[ApiError | None],
        while_enough_replicas: bool = False,
    ) -> None:
        """Call `callback(None)` once the high watermark reaches `commit_offset`, now if it has.

        Callbacks run in the order of calls. If the log fails, is deleted, or is no longer led:
        `callback(ApiError)` with KAFKA_STORAGE_ERROR, UNKNOWN_TOPIC_OR_PARTITION or
        NOT_LEADER_OR_FOLLOWER; the records may or may not survive. With `while_enough_replicas`
        also NOT_ENOUGH_REPLICAS_AFTER_APPEND.
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
        """Call the callbacks whose offset the high watermark has reached."""
        # A callback may append and wait again, so the queue is read again in each step.
        while self.waiting and self.waiting[0][0] <= self._log.high_watermark:
            self.waiting.popleft()[1](None)

    def too_few_replicas(self) -> None:
        """Fail the callbacks that wait `while_enough_replicas`, as the ISR is too small."""
        waiting = self.waiting or ()
        ending = [waiter for waiter in waiting if waiter[2]]
        if ending:
            self.waiting = deque(waiter for waiter in waiting if not waiter[2])
            for _, callback, _ in ending:
                callback(ApiError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND))

    def refuse(self, because: ErrorCode) -> None:
        """Fail all waiting callbacks and all later ones with `because`."""
        self.refusal = because
        waiting, self.waiting = self.waiting, None
        for _, callback, _ in waiting or ():
            callback(ApiError(because))
