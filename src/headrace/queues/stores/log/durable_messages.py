"""Messages of a durable queue whose log is made with the first of them.

What is published before its log is there waits in memory, and is confirmed as all else once it is
committed. Once the log is open the queue asks it (`StoreOwner.opened`), and this is left with the
log's life: when what was published is stored, and how it ends.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from headrace.model.errors import HeadraceError
from headrace.model.invariant import InvariantError
from headrace.ports.callbacks import Done
from headrace.queues.message_store import (
    GoesWithQueue,
    Kept,
    MessageStore,
    StoredDone,
    StoreOwner,
)
from headrace.queues.model.declarations import DeclaredQueue
from headrace.queues.queue_settings import Published, QueueType
from headrace.queues.stores.log.log_messages import LogMessages, Settled
from headrace.queues.stores.log.log_writing import Appended, QueueLogs
from headrace.queues.stores.log.record_messages import record_bytes
from headrace.wire.amqp.content import Message

if TYPE_CHECKING:
    from headrace.broker.partition import Partition

WAITING_BYTES_MAX = 64 * 1024 * 1024
"""Messages of one queue that wait for its log; more are refused until it is there."""

CROWDED_BYTES = 64 * 1024
"""Beyond so much that waits for a log, who publishes is held up until it is there: beside one who
goes on the log is made slowly, and what waits is not to reach the bound above."""


class _Waiting(NamedTuple):
    """A published message that waits for its queue's log."""

    published: Published
    expires_at: float | None
    since: float
    """When it was published, monotonic seconds; only of those that expire."""


class OpenLog(MessageStore, GoesWithQueue, Appended, Protocol):
    """The log of a store, once it is there: `log_messages.LogMessages`, `stream_log.StreamLog`."""

    @property
    def counted_to(self) -> int:
        """The position below which all messages that are committed are known of."""

    @property
    def appended_to(self) -> int:
        """The position above what was appended last."""

    def load(self, done: Done[HeadraceError | None], settled: bytes | None = None) -> None:
        """Find out what there is; `done` with why not.

        `settled`: what the file of what is settled holds; None: it is to be read, if it matters.
        """

    def close(self, done: Callable[[], None]) -> None:
        """Write down all there is to know, then `done`."""

    def abandon(self) -> None:
        """Write and read nothing any more."""


class DurableMessages:
    """One priority of a durable queue: `MessageStore`, `LateStore`, and a log's `StoreListener`."""

    def __init__(self, logs: QueueLogs, vhost: str, queue: DeclaredQueue, priority: int) -> None:
        self.vhost = vhost
        self.queue = queue
        self.priority = priority
        self._logs = logs
        self._owner: StoreOwner | None = None
        self._messages: OpenLog | None = None
        """None: the log is not there yet, or no longer."""
        self._opened = False
        self._asked = False
        self._gone = False
        """Closed or dropped."""
        self._dropped = False
        self._error: HeadraceError | None = None
        self._waiting: list[_Waiting] = []
        """Published before the log is there."""
        self._waiting_bytes = 0
        self.held_up: list[Callable[[], None]] = []
        """Who publishes again once the log is there. `QueueLogs.hold_up`."""
        self._confirmed = 0
        self._awaited: deque[tuple[int, StoredDone]] = deque()
        """Who waits, and for which position to be confirmed."""

    def attach(self, owner: StoreOwner) -> MessageStore:
        """Say whose messages they are; returns their log, if it is open. `LateStore`."""
        self._owner = owner
        return self if self._messages is None else self._messages

    @property
    def is_crowded(self) -> bool:
        """Whether so much waits for the log that who publishes is held up."""
        return self._waiting_bytes > CROWDED_BYTES

    # The log

    def want_log(self) -> None:
        """Have the log made, if that has not been asked for."""
        if not self._asked:
            self._asked = True
            self._logs.ask_for_log(self)

    def have_log(self, partition: "Partition | HeadraceError") -> None:
        """Take the log that was made, and write to it what waits."""
        if self._gone or self._opened:
            return
        if isinstance(partition, HeadraceError):
            self._asked = False
            self.failed(partition)
            return

        def opened(error: HeadraceError | None) -> None:
            messages = self._messages
            if messages is None:
                return
            # Others may have written to it before it was opened.
            kept = messages.kept()
            if kept.ready:
                self.arrived(kept.ready, kept.ready_bytes)
            if self._owner is not None:
                self._owner.log_made()

        self.open(partition, opened)

    def open(
        self,
        partition: "Partition",
        done: Done[HeadraceError | None],
        settled: bytes | None = None,
    ) -> None:
        """Load the log of a partition that this broker leads; `done` with why not.

        `settled`: what the file of what is settled holds; None: it is to be read.
        """
        self._asked = self._opened = True
        messages = self._new_log(partition)

        def loaded(error: HeadraceError | None) -> None:
            if error is None and not self._gone:
                self._messages = messages
                if self._owner is not None:
                    self._owner.opened(self.priority, messages)
                self._write_waiting(messages)
            done(error)

        messages.load(loaded, settled)

    def _new_log(self, partition: "Partition") -> OpenLog:
        logs, settings = self._logs, self.queue.settings
        return LogMessages(
            partition,
            logs.files,
            logs.clock,
            self,
            ttl_ms=settings.ttl_ms,
            drops_transient=settings.queue_type is QueueType.CLASSIC,
            keeps_settled=settings.keeps_settled,
            windows=logs.windows,
        )

    def _write_waiting(self, messages: OpenLog) -> None:
        waiting = self._take_waiting()
        try:
            for published, expires_at, since in waiting:
                if expires_at is not None and expires_at > since:
                    # Its lifetime does not pass while its log is made.
                    expires_at += self._logs.clock.monotonic() - since
                messages.append(published, expires_at)
        except HeadraceError as error:
            self.failed(error)
            return
        messages.write()
        awaited, self._awaited = self._awaited, deque()
        for _, done in awaited:
            self.when_stored(done)

    def _take_waiting(self) -> "list[_Waiting]":
        """Have nothing wait any more, and who publishes go on."""
        waiting, self._waiting = self._waiting, []
        self._logs.memory.bytes -= self._waiting_bytes
        self._waiting_bytes = 0
        held_up, self.held_up = self.held_up, []
        for go_on in held_up:
            go_on()
        return waiting

    # Keeping

    @property
    def end(self) -> int:
        """The position above all that are kept."""
        return 0 if self._messages is None else self._messages.end

    @property
    def counted_to(self) -> int:
        """The position below which all messages that are committed are known of."""
        return 0 if self._messages is None else self._messages.counted_to

    def kept(self) -> Kept:
        """Return what there is before the queue does anything."""
        return Kept() if self._messages is None else self._messages.kept()

    def append(self, published: Published, expires_at: float | None) -> int:
        """Have a message wait for the log; returns 0. HeadraceError."""
        self._wait(published, expires_at)
        return 0

    def _wait(self, published: Published, expires_at: float | None) -> None:
        if self._error is not None:
            raise self._error
        if self._gone:
            raise HeadraceError("the broker stops")
        size = record_bytes(published.message)
        if self._waiting_bytes + size > WAITING_BYTES_MAX:
            raise HeadraceError(
                f"its log is still being made, and {WAITING_BYTES_MAX} bytes wait for it already"
            )
        since = 0.0 if expires_at is None else self._logs.clock.monotonic()
        self._waiting.append(_Waiting(published, expires_at, since))
        self._waiting_bytes += size
        self._logs.memory.bytes += size
        if self.is_crowded and self not in self._logs.crowded:
            self._logs.crowded.append(self)
        self.want_log()

    def when_stored(self, done: StoredDone) -> None:
        """Tell `done` once all that was appended so far is kept for good. `LateStore`."""
        if self._error is not None:
            done(False)
        elif self._messages is None and self._waiting:
            self._awaited.append((0, done))
        elif self._appended_to > self._confirmed and not self._dropped:
            self._awaited.append((self._appended_to, done))
        else:
            done(True)

    @property
    def _appended_to(self) -> int:
        """The position above what was appended last."""
        return 0 if self._messages is None else self._messages.appended_to

    def read(self, position: int, count: int) -> tuple[Sequence[int], Sequence[Message]]:
        """Return nothing: no log is there to read."""
        return (), ()

    def expires_at(self, position: int) -> float | None:
        """Return None: no message was read."""
        return None

    def settle(self, positions: Sequence[int]) -> None:
        """Forget messages; a `range`: all that wait."""
        if isinstance(positions, range):
            self._take_waiting()

    def note_handed_out(self, below: int) -> None:
        """Do nothing: no message was read."""

    def note_returned(self, position: int, count: int) -> None:
        """Do nothing: no message was delivered."""

    def settled(self) -> Settled:
        """Return how far all of the log is settled; not at all while there is none."""
        messages = self._messages
        return messages.settled() if isinstance(messages, LogMessages) else Settled()

    def write_settled(self) -> None:
        """Have it written at once what is settled, though nothing of it has changed."""
        if isinstance(self._messages, LogMessages):
            self._messages.write_settled()

    # Ends

    def close(self, done: Callable[[], None]) -> None:
        """Write down all there is to know, then `done`. `LateStore`."""
        messages, self._messages = self._messages, None
        self._gone = True
        if messages is None:
            self._take_waiting()
            done()
        else:
            messages.close(done)

    def drop(self) -> None:
        """Keep nothing any more: the queue is deleted. `LateStore`."""
        messages, self._messages = self._messages, None
        self._gone = self._dropped = True
        self._take_waiting()
        if messages is not None:
            messages.drop()
        self._tell_awaited(True)

    def abandon(self) -> None:
        """Write and read nothing any more, and keep what is on disk. `LateStore`."""
        self._gone = True
        self._take_waiting()
        if self._messages is not None:
            self._messages.abandon()
        self._tell_awaited(False)

    def broke(self, error: InvariantError) -> None:
        """Have the queue closed. `StoreListener`."""
        if self._owner is not None:
            self._owner.broke(error)

    # What the log says

    def appended(self) -> None:
        """Have the log written when the pass ends. `StoreListener`."""
        if self._messages is not None:
            self._logs.appended.append(self._messages)

    def confirmed(self, upto: int) -> None:
        """Tell who waits for it. `StoreListener`."""
        self._confirmed = upto
        awaited = self._awaited
        while awaited and awaited[0][0] <= upto:
            awaited.popleft()[1](True)

    def readable(self) -> None:
        """Have the queue hand out. `StoreListener`."""
        if self._owner is not None:
            self._owner.readable()

    def arrived(self, count: int, size: int) -> None:
        """Tell the queue, when this turn is over, what others wrote. `StoreListener`."""

        def tell() -> None:
            if self._owner is not None and not self._gone:
                self._owner.arrived(self.priority, count, size)

        self._logs.clock.call_later(0, tell)

    def failed(self, error: HeadraceError) -> None:
        """Take and give nothing any more. `StoreListener`."""
        if self._gone or self._error is not None:
            return
        self._error = error
        self._take_waiting()
        self._tell_awaited(False)
        if self._owner is not None:
            self._owner.failed(error)

    def _tell_awaited(self, kept: bool) -> None:
        awaited, self._awaited = self._awaited, deque()
        for _, done in awaited:
            done(kept)
