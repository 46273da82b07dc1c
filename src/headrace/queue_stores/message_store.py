"""The port between a queue and the store of its messages: memory, a log, a stream, a topic.

A store has messages at positions, integers that increase, not always by one, and knows which of
them are settled. The queue knows the order of delivery and which consumer holds which message.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from typing import NamedTuple, Protocol, runtime_checkable

from headrace.model.errors import HeadraceError
from headrace.model.invariant import InvariantError
from headrace.queue_stores.queue_settings import Published
from headrace.wire.amqp.content import Message

StoredDone = Callable[[bool], None]
"""Callback that takes whether all awaited messages are stored; False: some never will be."""


class Kept(NamedTuple):
    """The contents of a message store when a queue begins with it."""

    start: int = 0
    """The lowest position that is not settled."""
    ready: int = 0
    """Number of unsettled messages from `start` on."""
    ready_bytes: int = 0
    """Bytes of the bodies of these messages."""
    handed_out: int = 0
    """Position below which messages may have been delivered before: they are redelivered."""
    returns: Mapping[int, int] = {}
    """Number of requeues by position, if the store keeps it."""
    expiring: bool = False
    """Whether one of the messages has an expiry."""


class MessageStore(Protocol):
    """The store of the messages of one priority of a queue, at ascending positions."""

    @property
    def end(self) -> int:
        """The position after the store's last message."""

    def kept(self) -> Kept:
        """Return the store's contents as they were before the queue changed anything."""

    def append(self, published: Published, expires_at: float | None) -> int:
        """Store a message until `settle`; return its position. `expires_at`: monotonic seconds.

        Raises HeadraceError if the message cannot be stored; it is then stored nowhere.
        """

    def read(self, position: int, count: int) -> tuple[Sequence[int], Sequence[Message]]:
        """Return up to `count` unsettled positions and their messages, from `position` on.

        Only committed and loaded messages. May return fewer, or none; `StoreOwner.readable` is
        called when more can be read.
        """

    def settle(self, positions: Sequence[int]) -> None:
        """Settle messages, in ascending order; a `range` may include unused positions."""

    def expires_at(self, position: int) -> float | None:
        """Return the expiry of a message in monotonic seconds; None: it does not expire."""

    def note_handed_out(self, below: int) -> None:
        """Note that messages below a position may have been delivered."""

    def note_returned(self, position: int, count: int) -> None:
        """Note that a message has been requeued `count` times so far."""


@runtime_checkable
class GoesWithQueue(Protocol):
    """A message store that can be deleted with its queue."""

    def drop(self) -> None:
        """Delete all messages, delivered ones too; waiting `when_stored` callbacks get True."""


class StoreOwner(Protocol):
    """The queue of a message store, which the store notifies of events."""

    def readable(self) -> None:
        """Note that more messages can be read: a delivery may succeed."""

    def opened(self, priority: int, store: MessageStore) -> None:
        """Use another store for a priority from now on, with all that it has: its log is open."""

    def log_made(self) -> None:
        """Note that the queue's log was created, so that Kafka producers may write to it."""

    def arrived(self, priority: int, count: int, size: int) -> None:
        """Count `count` messages of `size` bytes that Kafka producers wrote to the store."""

    def refused_late(self, priority: int, count: int, size: int, error: HeadraceError) -> None:
        """Forget `count` messages of a priority, `size` bytes, which no log accepts."""

    def failed(self, error: HeadraceError) -> None:
        """Note that the store has failed: it accepts and returns no messages any more."""

    def broke(self, error: InvariantError) -> None:
        """Note that the store's state contradicts itself, so that the queue must be closed."""


class Waited(Protocol):
    """A store that has messages on disk some time after it has accepted them."""

    def when_stored(self, done: StoredDone) -> None:
        """Call `done` with True once all messages appended so far are stored, False if never."""


def when_all(waited: Collection[Waited], done: StoredDone) -> None:
    """Call `done` once all of `waited` have reported; False if any has not stored all."""
    left, all_stored = len(waited), True
    if not left:
        done(True)

    def told(stored: bool) -> None:
        nonlocal left, all_stored
        left -= 1
        all_stored = all_stored and stored
        if not left:
            done(all_stored)

    for each in waited:
        each.when_stored(told)


class TopicStore(Waited, Protocol):
    """The store of messages that exchanges store in a Kafka topic.

    Implemented by `topic_writer.TopicWriter`.
    """

    def check(self, message: Message, key_header: str | None) -> None:
        """Raise the HeadraceError that `append` would raise, as far as it is known."""

    def append(self, message: Message, key_header: str | None) -> None:
        """Append a message; raise HeadraceError if it is not accepted.

        `key_header`: as in `ExchangeTopic`.
        """


@runtime_checkable
class LateStore(GoesWithQueue, Waited, Protocol):
    """A store that has a message on disk some time after it has accepted it: a log."""

    def attach(self, owner: StoreOwner) -> MessageStore:
        """Set the queue of the store; return the store to use at present."""

    def want_log(self) -> None:
        """Have the log created, though there is no message to store yet."""

    def close(self, done: Callable[[], None]) -> None:
        """Write the settled positions and close the store, then call `done`: the broker stops."""

    def abandon(self) -> None:
        """Stop writing and reading, and leave the files on disk: the queue is closed."""

    def is_loading(self) -> bool:
        """Return whether the messages of an existing log are being loaded."""

    def hold(self) -> None:
        """Have later messages wait until `release`: an empty queue is about to be deleted.

        They are confirmed if it is. Each call needs a `release`, unless the store ends.
        """

    def release(self) -> None:
        """Store what has waited since `hold`: the queue is not deleted."""

    def resign(self) -> None:
        """Stop writing and reading, and release memory: another broker leads the queue.

        Waiting `when_stored` callbacks get False. The store is not used any more.
        """


@runtime_checkable
class BatchStore(Protocol):
    """A store that appends a producer's batch unchanged, and once: an open log."""

    @property
    def batch_bytes_max(self) -> int:
        """Bytes of messages in one batch at most."""

    def has_batch(self, batch: bytes) -> bool:
        """Tell whether the store has a batch; raises HeadraceError if it refuses it."""

    def append_all(self, messages: Sequence[Message], *, persistent: bool) -> None:
        """Append messages of the batch that it does not have, which do not expire."""

    def write(self, batch: bytes | None = None) -> None:
        """Write the appended messages, those of `batch` as it is."""


@cache
def keeps_late(kind: type) -> bool:
    """Tell whether stores of a type are `LateStore`; cached, as the check is slow."""
    return issubclass(kind, LateStore)


class StoreListener(Protocol):
    """Callbacks from a log to a queue's store; none of them may append."""

    def appended(self) -> None:
        """Note an append: `write` must be called when the pass ends."""

    def confirmed(self, upto: int) -> None:
        """Note that messages appended below a position are stored."""

    def readable(self) -> None:
        """Note that `read` returns more than before: a delivery may succeed."""

    def arrived(self, count: int, size: int) -> None:
        """Count `count` messages of `size` bytes that Kafka producers wrote."""

    def note_held(self, size: int) -> None:
        """Note that `size` bytes of messages wait in the log for in-sync replicas now."""

    def failed(self, error: HeadraceError) -> None:
        """Note that the log failed, or is led elsewhere: unconfirmed messages may be lost."""

    def broke(self, error: InvariantError) -> None:
        """Note that the log's settled state contradicts itself."""
