"""The store of a durable queue's priority, whose log is created with the first message.

Messages published before the log exists wait in memory, and are confirmed once committed, as all
others. Once the log is open the queue uses it directly (`StoreOwner.opened`); this store keeps the
log's lifecycle and the callbacks of publishes that are not stored yet.

If the log cannot be created, the waiting messages are refused. So is each later one, but it
requests the log again: the queue recovers without a restart, as RabbitMQ restarts a crashed queue.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headrace.model.errors import ApiError, ErrorCode, HeadraceError
from headrace.model.invariant import InvariantError
from headrace.ports.callbacks import Done, ignore_result
from headrace.queue_stores.log.log_messages import LogMessages
from headrace.queue_stores.log.open_log import OpenLog
from headrace.queue_stores.log.queue_logs import QueueLogs
from headrace.queue_stores.log.settlement_counts import Settled
from headrace.queue_stores.log.waiting_messages import WaitingMessage, WaitingMessages, complete
from headrace.queue_stores.message_store import (
    Kept,
    MessageStore,
    StoredDone,
    StoreOwner,
)
from headrace.queue_stores.queue_settings import Published, QueueType, StoredQueue
from headrace.wire.amqp.content import Message

if TYPE_CHECKING:
    from headrace.broker.partition import Partition

_logger = logging.getLogger(__name__)


class DurableMessages:
    """The store of a durable queue's priority: `MessageStore`, `LateStore`, `StoreListener`."""

    def __init__(self, logs: QueueLogs, vhost: str, queue: StoredQueue, priority: int) -> None:
        self.vhost = vhost
        self.queue = queue
        self.priority = priority
        self._logs = logs
        self._owner: StoreOwner | None = None
        self._messages: OpenLog | None = None
        """The open log; None: not created yet, or closed."""
        self._loading: OpenLog | None = None
        """The log that is being loaded."""
        self._opened = False
        self._asked = False
        self._gone = False
        """Whether the store was closed, dropped or abandoned."""
        self._dropped = False
        self._error: HeadraceError | None = None
        self._waiting = WaitingMessages(logs.memory, logs.crowded)
        """Messages published before the log is open."""
        self._confirmed = 0
        self._awaited: deque[tuple[int, StoredDone]] = deque()
        """Callbacks that wait for a position to be confirmed, by position.

        Before the log exists: by the number of messages that had waited by then.
        """

    def attach(self, owner: StoreOwner) -> MessageStore:
        """Set the queue; return the log if it is open, else this store. Implements `LateStore`."""
        self._owner = owner
        return self if self._messages is None else self._messages

    # The log

    def want_log(self) -> None:
        """Request the creation of the queue's log; later calls do nothing."""
        if not self._asked:
            self._asked = True
            self._logs.ask_for_log(self)

    def have_log(
        self,
        partition: "Partition | HeadraceError",
        done: Done[HeadraceError | None] = ignore_result,
    ) -> None:
        """Open the created log and write the waiting messages to it; with an error, refuse them.

        `done`: as in `open`.
        """
        if self._gone or self._opened:
            return
        if isinstance(partition, HeadraceError):
            self._asked = False
            self._refuse_waiting(partition)
            return
        self._error = None

        def opened(error: HeadraceError | None) -> None:
            if self._messages is not None and self._owner is not None:
                self._owner.log_made()
            done(error)

        self.open(partition, opened)

    def open(
        self,
        partition: "Partition",
        done: Done[HeadraceError | None],
        settled: bytes | None = None,
    ) -> None:
        """Load the log of a partition that this broker leads; call `done` with None or the error.

        `settled` is the content of the file of settled positions; None: read it.
        """
        self._asked = self._opened = True
        messages = self._loading = self._new_log(partition)

        def loaded(error: HeadraceError | None) -> None:
            self._loading = None
            if error is None and not self._gone:
                self._messages = messages
                if self._owner is not None:
                    self._owner.opened(self.priority, messages)
                self._write_waiting(messages)
            elif not self._gone:
                messages.resign()  # the next store may load it
            done(error)

        messages.load(loaded, settled)

    def _new_log(self, partition: "Partition") -> OpenLog:
        logs, settings = self._logs, self.queue.settings
        return LogMessages(
            partition,
            logs.files,
            logs.clock,
            self,
            ttl_ms_at=self.queue.ttl_ms_at,
            drops_transient=settings.queue_type is QueueType.CLASSIC,
            keeps_settled=settings.keeps_settled,
            windows=logs.windows,
            copies=logs.copies,
        )

    def _write_waiting(self, messages: OpenLog) -> None:
        """Append the waiting messages to the log, and refuse each one that is too large for it."""
        first = self._waiting.count - len(self._waiting.messages)
        waiting = self._waiting.take()
        # Taken first: without a flush the log confirms a batch as soon as it is written.
        awaited, self._awaited = self._awaited, deque()
        refused: list[int] = []
        now = self._logs.clock.monotonic()
        try:
            for number, each in enumerate(waiting, first):
                error = each.append_to(messages, now)
                if error is not None:
                    self._refuse_alone(each, error)
                    refused.append(number)
        except HeadraceError as failure:
            self._awaited = awaited
            self.failed(failure)
            self._tell_awaited(False)
            return
        messages.write()
        if refused:
            self._refused_alone(first, refused)
        for done, accepted in complete(awaited, first, refused):
            if accepted:
                self.when_stored(done)
            else:
                done(False)

    def _refuse_alone(self, waiting: WaitingMessage, error: HeadraceError) -> None:
        """Forget a message that waited and that the log does not accept."""
        _logger.error(
            "queue %r (vhost %r): a message that waited for the queue's log is refused: %s. Publish"
            " it again with a smaller body", self.queue.name, self.vhost, error,
        )  # fmt: skip
        if self._owner is not None:
            self._owner.refused_late(self.priority, 1, len(waiting.published.message.body), error)

    def _refused_alone(self, first: int, refused: Sequence[int]) -> None:
        """Note that the log has not all messages that waited: their numbers from `first` on."""

    def _refuse_waiting(self, error: HeadraceError) -> None:
        """Refuse messages until the log is created, those that wait for it included."""
        if self._error is None:
            _logger.error(
                "queue %r (vhost %r): its log cannot be created: %s. Publishes are refused; each"
                " one tries again", self.queue.name, self.vhost, error,
            )  # fmt: skip
        self._error = error
        sizes = [len(each.published.message.body) for each in self._waiting.take()]
        if self._owner is not None:
            self._owner.refused_late(self.priority, len(sizes), sum(sizes), error)
        self._tell_awaited(False)

    # Storing messages

    @property
    def end(self) -> int:
        """Position after the last message; 0 without a log."""
        return 0 if self._messages is None else self._messages.end

    @property
    def counted_to(self) -> int:
        """Position below which all committed messages are counted; 0 without a log."""
        return 0 if self._messages is None else self._messages.counted_to

    def kept(self) -> Kept:
        """Return the contents before the queue has changed anything."""
        return Kept() if self._messages is None else self._messages.kept()

    def append(self, published: Published, expires_at: float | None) -> int:
        """Add a message to those that wait for the log; return 0. Raises HeadraceError."""
        self._wait(published, expires_at)
        return 0

    def _wait(self, published: Published, expires_at: float | None) -> None:
        if self._error is not None:
            self.want_log()  # does nothing once the log was open
            raise self._error
        if self._gone:
            raise HeadraceError("the broker is stopping: the message was not stored")
        since = 0.0 if expires_at is None else self._logs.clock.monotonic()
        self._waiting.add(published, expires_at, since)
        self.want_log()

    def when_stored(self, done: StoredDone) -> None:
        """Call `done` with True once all messages appended so far are stored.

        Implements `LateStore`.
        """
        if self._error is not None:
            done(False)
        elif self._messages is None and self._waiting.messages:
            self._awaited.append((self._waiting.count, done))
        elif self._appended_to > self._confirmed and not self._dropped:
            self._awaited.append((self._appended_to, done))
        else:
            done(True)

    @property
    def _appended_to(self) -> int:
        """Position after the last message appended to the log; 0 without a log."""
        return 0 if self._messages is None else self._messages.appended_to

    def read(self, position: int, count: int) -> tuple[Sequence[int], Sequence[Message]]:
        """Return no messages: the log does not exist yet."""
        return (), ()

    def expires_at(self, position: int) -> float | None:
        """Return None: no message was read."""
        return None

    def settle(self, positions: Sequence[int]) -> None:
        """Drop the waiting messages if `positions` is a range: the queue is purged."""
        if isinstance(positions, range):
            self._waiting.take()

    def note_handed_out(self, below: int) -> None:
        """Ignore the call: no message was read from this store."""

    def note_returned(self, position: int, count: int) -> None:
        """Ignore the call: no message was delivered from this store."""

    def settled(self) -> Settled:
        """Return the position below which all is settled; 0 without a log."""
        messages = self._messages
        return messages.settled() if isinstance(messages, LogMessages) else Settled()

    def write_settled(self) -> None:
        """Have the settled positions written at once, even if unchanged."""
        if isinstance(self._messages, LogMessages):
            self._messages.write_settled()

    def hold(self) -> None:
        """Have later messages wait; without a log they do anyway. Implements `LateStore`."""
        if self._messages is not None:
            self._messages.hold()

    def release(self) -> None:
        """Store what has waited since `hold`. Implements `LateStore`."""
        if self._messages is not None:
            self._messages.release()

    # Ends

    def close(self, done: Callable[[], None]) -> None:
        """Write the settled positions and close the log, then call `done`.

        Implements `LateStore`.
        """
        messages, self._messages = self._messages, None
        self._gone = True
        if messages is None:
            self._waiting.take()
            done()
        else:
            messages.close(done)

    def drop(self) -> None:
        """Delete all messages with the queue; pending `when_stored` get True.

        Implements `LateStore`.
        """
        messages, self._messages = self._messages or self._loading, None
        self._gone = self._dropped = True
        self._waiting.take()
        if messages is not None:
            messages.drop()
        self._tell_awaited(True)

    def abandon(self) -> None:
        """Stop writing and reading, and leave the files on disk. Implements `LateStore`."""
        self._gone = True
        self._waiting.take()
        messages = self._messages or self._loading
        if messages is not None:
            messages.abandon()
        self._tell_awaited(False)

    def is_loading(self) -> bool:
        """Return whether the log is being loaded. Implements `LateStore`."""
        return self._loading is not None

    def resign(self) -> None:
        """Stop writing and reading, and release the log: another broker leads.

        Implements `LateStore`.
        """
        messages, self._messages = self._messages or self._loading, None
        self._gone = True
        self._waiting.take()
        if messages is not None:
            messages.resign()
        self._tell_awaited(False)

    def broke(self, error: InvariantError) -> None:
        """Close the queue: its log's state contradicts itself. Implements `StoreListener`."""
        if self._owner is not None:
            self._owner.broke(error)

    # Events from the log

    def appended(self) -> None:
        """Have the log written when the pass ends: messages were appended.

        Implements `StoreListener`.
        """
        if self._messages is not None:
            self._logs.appended.append(self._messages)

    def confirmed(self, upto: int) -> None:
        """Call the callbacks that wait for a position below `upto`. Implements `StoreListener`."""
        self._confirmed = upto
        awaited = self._awaited
        while awaited and awaited[0][0] <= upto:
            awaited.popleft()[1](True)

    def readable(self) -> None:
        """Have the queue deliver: more messages can be read. Implements `StoreListener`."""
        if self._owner is not None:
            self._owner.readable()

    def note_held(self, size: int) -> None:
        """Pause publishers while much waits in the log for replicas. Implements `StoreListener`."""
        self._waiting.held(size)

    def arrived(self, count: int, size: int) -> None:
        """Report messages of Kafka producers to the queue, in the loop's next turn."""

        def tell() -> None:
            if self._owner is not None and not self._gone:
                self._owner.arrived(self.priority, count, size)

        self._logs.clock.call_later(0, tell)

    def failed(self, error: HeadraceError) -> None:
        """Refuse messages from now on, and report the error to the queue.

        Implements `StoreListener`.
        """
        if self._gone or self._error is not None:
            return
        if self._logs.copies is not None and _is_move(error):
            return  # the owner of the queue has the store resign
        self._error = error
        self._waiting.take()
        self._tell_awaited(False)
        if self._owner is not None:
            self._owner.failed(error)

    def _tell_awaited(self, kept: bool) -> None:
        awaited, self._awaited = self._awaited, deque()
        for _, done in awaited:
            done(kept)


def _is_move(error: HeadraceError) -> bool:
    return isinstance(error, ApiError) and error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
