"""`Delays`: messages that are delivered to their targets at a time.

    add       append to the log of delays, flushed; the log notes it in the time index; the caller
              is answered
    due       taken from the index, read, delivered to the target, flushed
    settled   the log says so, flushed

A kill before the message is settled delivers it again: at most twice for one kill, never not at
all. A message is due by the wall clock: a jump back delivers late by at most the jump, a jump
forward at once (within `LOOK_SECONDS_MAX`). Messages are delivered in the order of their times,
those of one millisecond in the order of arrival. In memory a message has some 9 bytes.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from headrace.held.held_records import HeldMessage
from headrace.held.time_index import DueOffset, TimeIndex
from headrace.model.errors import ApiError, ErrorCode, HeadraceError
from headrace.ports.callbacks import ignore_result, when_all
from headrace.posix.awaiting import called_back

if TYPE_CHECKING:
    from headrace.held.held_log import HeldLog, HeldRead
    from headrace.held.held_records import HeldPlace, StoredMessage
    from headrace.ports.callbacks import Done
    from headrace.ports.clock import Clock, Timer

DELIVERED_AT_ONCE = 512
"""Messages that are read and delivered together; the next ones follow when these are stored."""
LOOK_SECONDS_MAX = 1.0
"""Seconds between two looks at the wall clock while a message waits: it may have jumped."""
RETRY_MS = 1000
"""Milliseconds after which what failed is tried again."""
T = TypeVar("T")
Deliver = Callable[[HeldMessage[T], "Done[int | ApiError]"], None]
"""Appends a message to its target; called back when it is stored, or with why it is not."""

_logger = logging.getLogger(__name__)


class Delays(Generic[T]):
    """The delayed messages of one log. On the deciding thread."""

    def __init__(self, log: "HeldLog[T]", deliver: Deliver[T], clock: "Clock") -> None:
        self._log = log
        self._deliver = deliver
        self._clock = clock
        self._index = TimeIndex()
        self._flying: dict[int, DueOffset] = {}
        """Messages that are being delivered, by offset."""
        self._delivered: list[HeldPlace] = []
        """Messages that are in their targets, or need not be, and are not settled yet."""
        self._round = False
        """Whether messages are being delivered or settled."""
        self._failed: HeadraceError | None = None
        """The first error of the round, if there was one."""
        self._is_failing = False
        """Whether the last round failed, which was logged."""
        self._timer: Timer | None = None
        self._looks_ms = 0
        """The wall clock when the timer looks."""
        self._loaded = False
        self._closed = False
        self.discarded = 0
        """Messages whose topic was deleted before they were due."""

    def __len__(self) -> int:
        """Return the number of messages that are not delivered yet."""
        return len(self._index) + len(self._flying)

    async def load(self) -> None:
        """Read the log, and deliver what has become due. Raises HeadraceError."""
        state = await self._log.load(self._note)
        self._index.keep(lambda offset: offset not in state.settled)
        self._loaded = True
        self._arm()

    def close(self) -> None:
        """Deliver nothing more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def add(
        self,
        message: HeldMessage[T],
        due_ms: int,
        done: "Done[int | ApiError]",
        appended: "Done[int]" = ignore_result,
    ) -> None:
        """Store a message until a time; `done` gets its offset in the log, or the error.

        `appended` gets the offset before, when it is not flushed yet.
        """
        self._log.append(message, due_ms, done, appended)

    def _note(self, offset: int, due_ms: int) -> None:
        """Note a message that is in the log."""
        self._index.add(due_ms, offset)
        # While the log is read, messages that are settled are in the index.
        if self._loaded and (self._timer is None or due_ms < self._looks_ms):
            self._arm()

    async def recall(self, due_ms: int, wanted: "Callable[[HeldMessage[T]], bool]") -> bool:
        """Settle a message that is due at a time and not delivered yet; return whether there was
        one.

        On return it is settled on disk. HeadraceError: it may or may not be delivered.
        """
        offsets = self._index.at(due_ms)
        while offsets:
            some = offsets[:DELIVERED_AT_ONCE]
            read: HeldRead[T] = await called_back(partial(self._log.read, some))
            offsets = read.unread + offsets[DELIVERED_AT_ONCE:]
            for stored in read.found.values():
                # While it was read, the message may have become due.
                if wanted(stored.message) and self._index.remove(due_ms, stored.place.offset):
                    await self._settle_recalled(due_ms, stored.place)
                    return True
        return False

    async def _settle_recalled(self, due_ms: int, place: "HeldPlace") -> None:
        try:
            await called_back(partial(self._log.settle, [place]))
        except ApiError:
            self._index.add(due_ms, place.offset)
            self._arm()
            raise

    # Due

    def _arm(self) -> None:
        """Look again when the next message is due, but no later than the clock may have jumped."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._closed or self._round:
            return  # the end of the round looks again
        first_ms = self._index.first_ms()
        if self._delivered:
            seconds = RETRY_MS / 1000
        elif first_ms is None:
            return
        else:
            seconds = max((first_ms - self._clock.wall_ms()) / 1000, 0.0)
        seconds = min(seconds, LOOK_SECONDS_MAX)
        self._looks_ms = self._clock.wall_ms() + int(seconds * 1000)
        self._timer = self._clock.call_later(seconds, self._look)

    def _look(self) -> None:
        """Begin a round with the messages that are due."""
        self._timer = None
        due: list[DueOffset] = []
        if not self._delivered:  # else settling failed, and a kill would deliver more twice
            due = self._index.take(self._clock.wall_ms(), DELIVERED_AT_ONCE)
        self._round = True
        self._failed = None
        self._flying = {each.offset: each for each in due}
        if due:
            self._log.read(list(self._flying), self._have_read)
        else:
            self._end_round()

    def _have_read(self, read: "HeldRead[T] | BaseException") -> None:
        if isinstance(read, HeadraceError):
            self._fail(read)
            for due in self._flying.values():
                self._index.add(self._clock.wall_ms() + RETRY_MS, due.offset)
            self._flying = {}
            self._end_round()
        elif isinstance(read, BaseException):
            raise read
        elif not self._closed:
            self._deliver_read(read)

    def _deliver_read(self, read: "HeldRead[T]") -> None:
        unread = frozenset(read.unread)
        stored: list[StoredMessage[T]] = []
        order = list(self._flying.values())
        for at, due in enumerate(order):
            if due.offset in unread:
                # Those behind it wait, too, so that the order of time holds.
                for later in order[at:]:
                    self._index.add(*self._flying.pop(later.offset))
                break
            found = read.found.get(due.offset)
            if found is None:
                del self._flying[due.offset]
                _logger.error("the delayed message at offset %d is not in its log", due.offset)
            else:
                stored.append(found)
        ended = when_all(len(stored), self._end_round)
        for each in stored:
            self._deliver(each.message, partial(self._have_delivered, each, ended))

    def _have_delivered(
        self, stored: "StoredMessage[T]", ended: Callable[[], None], offset: int | ApiError
    ) -> None:
        due = self._flying.pop(stored.place.offset)
        if not isinstance(offset, ApiError):
            self._delivered.append(stored.place)
        elif offset.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self.discarded += 1
            self._delivered.append(stored.place)
            _logger.warning(
                "a delayed message for %s is discarded, as the topic was deleted; no action is"
                " needed",
                stored.message.target,
            )
        else:
            self._fail(offset)
            self._index.add(self._clock.wall_ms() + RETRY_MS, due.offset)
        ended()

    def _fail(self, error: HeadraceError) -> None:
        """Note the error of a round; the first round that fails after others is logged."""
        self._failed = self._failed or error
        if not self._is_failing:
            self._is_failing = True
            _logger.warning(
                "delayed messages are late: %s. They are tried again every second", error
            )

    def _end_round(self) -> None:
        """Settle what was delivered, then look again."""
        if not self._delivered:
            self._look_again()
            return
        delivered, self._delivered = self._delivered, []

        def settled(error: ApiError | None) -> None:
            if error is not None:
                self._fail(error)
                self._delivered = delivered  # delivered for good; noted with the next round
            self._look_again()

        self._log.settle(delivered, settled)

    def _look_again(self) -> None:
        self._round = False
        if self._failed is None:
            self._is_failing = False
        self._arm()
