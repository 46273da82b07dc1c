"""`HalfMessages`: messages whose producers decide later whether they are delivered.

    undecided ---- commit ---> appended to the target, flushed ---> settled
        |  \\------ rollback --------------------------------------> settled
        |
        | not decided in time: a live producer of the group is asked, every `interval_ms`;
        | without one the message waits for the group to come back, and nothing is counted
        v
    asked `asks_max` times; or undecided for `age_ms_max`, and `asks_max` times a producer was asked
    or looked for
        ---> appended to the topic of given up messages, flushed ---> settled

RocketMQ counts that age by the wall clock alone, so a clock that jumps 72 hours ahead gives up all
messages at once, unasked. Here a jump that the process has seen adds nothing to the age, and after
one that it has not seen, before its start, each message is asked about `asks_max` times first.

What is decided is decided: a second decision finds nothing. A kill before a committed message is
settled leaves it undecided, so its producer is asked again, and a commit then delivers it a second
time: at most twice for one kill, never not at all. An undecided message has some 9 bytes in memory.
"""

import logging
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from headrace.held.offset_set import OffsetSet
from headrace.held.time_index import TimeIndex
from headrace.model.errors import ApiError, HeadraceError
from headrace.ports.callbacks import ignore_result
from headrace.posix.awaiting import called_back

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.held.delays import Deliver
    from headrace.held.held_log import HeldLog, HeldRead
    from headrace.held.held_records import HeldPlace
    from headrace.held.topic_targets import HeldTopicMessage, StoredTopicMessage
    from headrace.model.nouns import TopicPartition
    from headrace.ports.callbacks import Done
    from headrace.ports.clock import Clock, Timer

READ_AT_ONCE = 128
"""Messages that are read together to ask about them."""
LOOK_SECONDS_MAX = 1.0
"""Seconds between two looks at the wall clock while a message waits: it may have jumped."""

_logger = logging.getLogger(__name__)


class AskingRules(NamedTuple):
    """When a producer is asked about an undecided message."""

    interval_ms: int
    """Between two questions about one message."""
    asks_max: int
    """Questions about one message, before it is given up."""
    age_ms_max: int = -1
    """Time since the first question was due, after which a message is given up, whether there was
    a producer or not; negative: no end."""


class HalfMessages:
    """The undecided messages of one log. On the deciding thread."""

    def __init__(
        self,
        log: "HeldLog[TopicPartition]",
        clock: "Clock",
        rules: AskingRules,
        ask: "Callable[[StoredTopicMessage, int], bool]",
        give_up: "Deliver[TopicPartition]",
    ) -> None:
        """`ask` asks a live producer about a message, the number of questions with this one
        included; it returns whether there is a producer. `give_up` stores a message that was given
        up."""
        self._log = log
        self._clock = clock
        self._rules = rules
        self._ask = ask
        self._give_up = give_up
        self._open = OffsetSet()
        """Undecided messages."""
        self._deciding: set[int] = set()
        """Those of them for which a decision is being stored."""
        self._index = TimeIndex()
        """When to ask about each, and about some that are decided meanwhile."""
        self._asked: dict[int, int] = {}
        """Questions about each undecided message, if there were any."""
        self._looked_for: dict[int, int] = {}
        """Of each message above the age: how often there was no producer to ask since then."""
        self._ahead_ms = clock.wall_ms() - clock.monotonic() * 1000
        """The wall clock at the start, ahead of the monotonic one."""
        self._unsettled: list[HeldPlace] = []
        """Messages that are delivered, but could not be settled yet."""
        self._reading = False
        self._timer: Timer | None = None
        self._looks_ms = 0
        """The wall clock when the timer looks."""
        self._loaded = False
        self._closed = False
        self.given_up = 0
        """Messages that were given up since the start."""

    def __len__(self) -> int:
        """Return the number of undecided messages."""
        return len(self._open)

    async def load(self) -> None:
        """Read the log, and begin to ask. Raises HeadraceError."""
        state = await self._log.load(self._note)
        self._index.keep(lambda offset: offset not in state.settled)
        state.settled.each(self._open.remove)
        self._asked = state.attempts
        self._loaded = True
        self._arm()

    def close(self) -> None:
        """Stop asking."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def add(
        self,
        message: "HeldTopicMessage",
        ask_ms: int,
        done: "Done[int | ApiError]",
        appended: "Done[int]" = ignore_result,
    ) -> None:
        """Store a message until it is decided; `ask_ms`: when to ask its producer first.

        `done` gets its offset in the log when it is on disk, or the error; `appended` before, when
        it is not flushed yet.
        """
        self._log.append(message, ask_ms, done, appended)

    def _note(self, offset: int, ask_ms: int) -> None:
        """Note a message that is in the log."""
        self._open.add(offset)
        self._index.add(ask_ms, offset)
        # While the log is read, messages that are settled are among the undecided ones.
        if self._loaded and (self._timer is None or ask_ms < self._looks_ms):
            self._arm()

    # Decisions

    async def decide(
        self,
        offset: int,
        check: "Callable[[HeldTopicMessage], None]",
        commit: "Deliver[TopicPartition] | None",
    ) -> bool:
        """Decide on a message: `commit` delivers it; None rolls it back.

        Return False if it is not undecided: it was decided before, or was never here. `check`
        raises HeadraceError to refuse the decision. HeadraceError: nothing is decided.
        """
        if offset not in self._open or offset in self._deciding:
            return False
        self._deciding.add(offset)
        try:
            read: HeldRead[TopicPartition] = await called_back(partial(self._log.read, [offset]))
            stored = read.found.get(offset)
            if stored is None:
                return False
            check(stored.message)
            if commit is None:
                await called_back(partial(self._log.settle, [stored.place], counted=self._counted))
                self._forget(offset)
            else:
                await called_back(partial(commit, stored.message))
                # An answer before that could be contradicted by a decision after a power failure.
                await called_back(partial(self._settle_delivered, stored.place))
            return True
        finally:
            self._deciding.discard(offset)

    def _counted(self, offset: int) -> bool:
        return offset in self._asked

    def asked(self, offset: int) -> int:
        """Return how often a producer was asked about an undecided message."""
        return self._asked.get(offset, 0)

    def _forget(self, offset: int) -> None:
        self._open.remove(offset)
        self._asked.pop(offset, None)
        self._looked_for.pop(offset, None)

    def _settle_delivered(self, place: "HeldPlace", done: "Done[None]") -> None:
        """Settle a message that is delivered: it is decided, whether that can be stored now or not.

        `done` is called when it is stored, or has failed and will be tried again.
        """
        counted = place.offset in self._asked
        self._forget(place.offset)

        def settled(error: ApiError | None) -> None:
            if error is not None:
                _logger.warning(
                    "a decided message cannot be noted as decided: %s. This is tried again every"
                    " second; a restart before would ask its producer about it again",
                    error,
                )
                self._unsettled.append(place)
                self._arm()
            done(None)

        self._log.settle([place], settled, lambda offset: counted)

    # Questions

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        first_ms = self._index.first_ms()
        if self._closed or self._reading or (first_ms is None and not self._unsettled):
            return
        seconds = LOOK_SECONDS_MAX
        if first_ms is not None:
            seconds = min(max((first_ms - self._clock.wall_ms()) / 1000, 0.0), seconds)
        self._looks_ms = self._clock.wall_ms() + int(seconds * 1000)
        self._timer = self._clock.call_later(seconds, self._look)

    def _look(self) -> None:
        """Read the messages about which a producer is to be asked."""
        self._timer = None
        unsettled, self._unsettled = self._unsettled, []
        for place in unsettled:
            self._settle_again(place)
        due = self._index.take(self._clock.wall_ms(), READ_AT_ONCE)
        offsets = [offset for _, offset in due if offset in self._open]
        if offsets:
            self._reading = True
            self._log.read(offsets, partial(self._have_read, offsets))
        else:
            self._arm()

    def _settle_again(self, place: "HeldPlace") -> None:
        def settled(error: ApiError | None) -> None:
            if error is not None:
                self._unsettled.append(place)
                self._arm()

        self._log.settle([place], settled, lambda offset: True)

    def _have_read(
        self, offsets: list[int], read: "HeldRead[TopicPartition] | BaseException"
    ) -> None:
        self._reading = False
        if isinstance(read, HeadraceError):
            _logger.error(
                "undecided messages cannot be read: %s. They are read again in %d ms",
                read, self._rules.interval_ms,
            )  # fmt: skip
            self._ask_later(offsets)
        elif isinstance(read, BaseException):
            raise read
        elif not self._closed:
            now_ms = self._clock.wall_ms()
            for offset in read.unread:
                self._index.add(now_ms, offset)
            for offset in set(offsets) - read.found.keys() - set(read.unread):
                self._forget(offset)
                _logger.error("the undecided message at offset %d is not in its log", offset)
            for stored in read.found.values():
                self._ask_about(stored)
        self._arm()

    def _ask_later(self, offsets: list[int]) -> None:
        again_ms = self._clock.wall_ms() + self._rules.interval_ms
        for offset in offsets:
            self._index.add(again_ms, offset)

    def _ask_about(self, stored: "StoredTopicMessage") -> None:
        """Ask a producer about a message, unless it was decided or asked about too often."""
        place = stored.place
        if place.offset not in self._open:
            return
        asked = self._asked.get(place.offset, 0)
        if place.offset not in self._deciding:
            is_old, looked_for = self._is_old(place), self._looked_for.get(place.offset, 0)
            if asked + (looked_for if is_old else 0) >= self._rules.asks_max:
                self._end_unanswered(stored)
                return
            if self._ask(stored, asked + 1):
                self._asked[place.offset] = asked + 1
                # A count that is lost asks once more.
                self._log.count(place, asked + 1, ignore_result)
            elif is_old:
                self._looked_for[place.offset] = looked_for + 1
        self._ask_later([place.offset])

    def _is_old(self, place: "HeldPlace") -> bool:
        """Return whether a message is above the age, by the wall clock without jumps forward."""
        limit_ms = self._rules.age_ms_max
        without_jumps_ms = self._ahead_ms + self._clock.monotonic() * 1000
        now_ms = min(self._clock.wall_ms(), without_jumps_ms)
        return 0 <= limit_ms < now_ms - place.time_ms

    def _end_unanswered(self, stored: "StoredTopicMessage") -> None:
        """Store a message in the topic of given up messages, then settle it."""
        place, asked = stored.place, self.asked(stored.place.offset)
        self._deciding.add(place.offset)

        def kept(offset: int | ApiError) -> None:
            self._deciding.discard(place.offset)
            if isinstance(offset, ApiError):
                self._ask_later([place.offset])
                self._arm()
                return
            self.given_up += 1
            _logger.warning(
                "a message for %s is given up: its producer did not decide, and was asked %d times."
                " It is stored for an operator",
                stored.message.target, asked,
            )  # fmt: skip
            self._settle_delivered(place, ignore_result)

        self._give_up(stored.message, kept)
