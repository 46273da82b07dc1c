"""The port behind which a queue's messages are kept: in memory, or as records of a log.

A store keeps messages at positions: integers that rise, not always by one. It knows which of them
are settled. The queue knows in which order those that are not go out, and who holds them.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from typing import NamedTuple, Protocol, runtime_checkable

from headrace.model.errors import HeadraceError
from headrace.model.invariant import InvariantError
from headrace.queues.queue_settings import Published
from headrace.wire.amqp.content import Message

StoredDone = Callable[[bool], None]
"""Told whether all that was asked about is kept for good."""


class Kept(NamedTuple):
    """What a store holds when a queue begins with it."""

    start: int = 0
    """The lowest position that is not settled."""
    ready: int = 0
    """Messages that are not settled, from `start` on."""
    ready_bytes: int = 0
    """The bytes of their bodies."""
    handed_out: int = 0
    """What lies below was perhaps handed out before: `redelivered` is true for it."""
    returns: Mapping[int, int] = {}
    """How often a position was given back, where that is kept."""
    expiring: bool = False
    """One of the messages has an expiry."""


class MessageStore(Protocol):
    """Keeps the messages of one level of one queue."""

    @property
    def end(self) -> int:
        """The position above all that are kept."""

    def kept(self) -> Kept:
        """Return what there is before the queue does anything."""

    def append(self, published: Published, expires_at: float | None) -> int:
        """Keep a message until `settle`; returns its position. `expires_at`: monotonic seconds.

        Raises what keeps it from being kept: then nobody has it.
        """

    def read(self, position: int, count: int) -> tuple[Sequence[int], Sequence[Message]]:
        """Return positions and messages, the lowest unsettled from `position` on, at most `count`.

        Only what may be delivered (what is committed) and is at hand. Fewer, or none: whoever
        drives the queue is told by the store when `deliver` is worth another call.
        """

    def settle(self, positions: Sequence[int]) -> None:
        """Forget messages, the lowest first; a `range` may name positions that have none."""

    def expires_at(self, position: int) -> float | None:
        """Return when a message expires, monotonic seconds; None: never."""

    def note_handed_out(self, below: int) -> None:
        """Note that what lies below `below` may have been handed out."""

    def note_returned(self, position: int, count: int) -> None:
        """Note that a message has been given back `count` times by now."""


@runtime_checkable
class GoesWithQueue(Protocol):
    """A store that can be deleted with its queue."""

    def drop(self) -> None:
        """Forget all, also what is out: the queue is deleted. Who waits is told: all is well."""


class StoreOwner(Protocol):
    """Whose messages a store keeps."""

    def readable(self) -> None:
        """Note that the store can be read further: handing out is worth a try."""

    def opened(self, priority: int, store: MessageStore) -> None:
        """Ask another store for the messages of a priority from now on: their log is there."""

    def log_made(self) -> None:
        """Note that there is a log now, which others may write to."""

    def arrived(self, priority: int, count: int, size: int) -> None:
        """Note that others wrote `count` messages of `size` bytes to the store."""

    def failed(self, error: HeadraceError) -> None:
        """Note that the store takes and gives nothing any more."""

    def broke(self, error: InvariantError) -> None:
        """Note that the store's state contradicts itself."""


class Waited(Protocol):
    """What keeps messages for good some time after it has taken them."""

    def when_stored(self, done: StoredDone) -> None:
        """Tell `done` once all that was appended so far is kept for good; False: it never will."""


def when_all(waited: Collection[Waited], done: StoredDone) -> None:
    """Call `done` once all of `waited` have told; False: one of them has not stored all."""
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
    """Stores messages that exchanges hand to a Kafka topic. `messages.topic_writer.TopicWriter`."""

    def check(self, message: Message, key_header: str | None) -> None:
        """Raise what `append` would, HeadraceError, as far as that is known."""

    def append(self, message: Message, key_header: str | None) -> None:
        """Keep a message; `key_header`: as in `ExchangeTopic`. HeadraceError: it is not kept."""


@runtime_checkable
class LateStore(GoesWithQueue, Waited, Protocol):
    """A store that keeps a message for good some time after it has taken it: a log."""

    def attach(self, owner: StoreOwner) -> MessageStore:
        """Say whose messages they are; returns the store to be asked for them by now."""

    def want_log(self) -> None:
        """Have the log made, though there is nothing to be kept yet."""

    def close(self, done: Callable[[], None]) -> None:
        """Write down all there is to know, then `done`: the broker stops."""

    def abandon(self) -> None:
        """Write and read nothing any more, and keep what is on disk: its queue is closed."""


@cache
def keeps_late(kind: type) -> bool:
    """Tell whether stores of a type are `LateStore`: what a look at each of thousands costs."""
    return issubclass(kind, LateStore)


class StoreListener(Protocol):
    """Who drives the queue. Told while something else is done: none of these may append."""

    def appended(self) -> None:
        """Note that something was appended: `write` is to be called when the pass ends."""

    def confirmed(self, upto: int) -> None:
        """Note that what was appended at positions below `upto` holds for good."""

    def readable(self) -> None:
        """Note that `read` has more, or what it had not at hand: `deliver` is worth a call."""

    def arrived(self, count: int, size: int) -> None:
        """Note that others wrote `count` messages of `size` bytes (`MessageQueue.note_arrived`)."""

    def failed(self, error: HeadraceError) -> None:
        """Note that nothing is taken or given any more: what was not confirmed may be lost."""

    def broke(self, error: InvariantError) -> None:
        """Note that the log's settled state contradicts itself."""
