"""Publish a queue's dead letters by its dead letter exchange, and settle them once stored.

A dead letter is settled in its queue once every queue and topic that accepted it has stored it.
With the strategy at-most-once, a target that refuses the letter does not get it. With at-least-once
the letter stays in its queue until all targets have accepted it, and is published again to those
that refused it: LETTERS_REFUSED_MAX letters of a queue at a time, as RabbitMQ's worker holds so
many. Later letters wait behind them.

A letter that a target accepted and has not stored, as the target's leader changed or its log
failed, is published again by both strategies: its queue still has it.
"""

import logging
from collections import deque
from collections.abc import Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from headrace.queue_stores.queue_settings import Published
from headrace.queues.awaited import Awaited, note_number
from headrace.queues.engine.dead_letters import DeadLetter, is_cycle, with_messages
from headrace.queues.engine.dead_messages import dead_message
from headrace.queues.model.exchange_topic import is_target
from headrace.queues.model.exchanges import DEFAULT_EXCHANGE
from headrace.queues.model.published_properties import published, traits_of
from headrace.queues.port import ALL_UNSTORED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.ports.deadlines import Deadline, Deadlines
    from headrace.queues.engine.delivery_turns import AnyQueue
    from headrace.queues.engine.queue_host import QueueHost

_logger = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
"""Seconds before a refused letter, or one without a route, is published again."""
LETTERS_REFUSED_MAX = 32
"""Dead letters of a queue that are published again at a time, at most."""


_Takers = Mapping[str, int | None]
"""Names of queues and topics that have accepted a letter, with their numbers of it, if any."""
_NOT_TAKEN: _Takers = {}


class _Refused(NamedTuple):
    """A dead letter that some target queues or topics refused, to be published to them again."""

    letter: DeadLetter
    takers: _Takers = _NOT_TAKEN
    lost: bool = False
    """Whether targets had accepted it and have not stored it."""


class _Attempt:
    """A dead letter that is published to those targets of its route that have not accepted it."""

    def __init__(self, refused: _Refused) -> None:
        self.letter, takers, self.lost = refused
        self.takers = dict(takers)
        self.names: list[str] = []
        """Targets of the route so far; a target's index is the letter's number in `awaited`."""
        self.awaited: Awaited = {}
        """Targets that store the letter later."""
        self.late: Sequence[str] = ()
        """Their names."""

    def lost_letter(self) -> _Refused:
        """Return the letter for the targets that had accepted it and have not stored it."""
        takers = {name: self.takers.get(name) for name in self.names if name not in self.late}
        return _Refused(self.letter, takers, lost=True)

    def refused_by(self, numbers: Collection[int]) -> _Refused:
        """Return the letter for the targets that refused it late, by their numbers."""
        refusers = {self.names[number] for number in numbers}
        takers = {name: own for name, own in self.takers.items() if name not in refusers}
        return _Refused(self.letter, takers)


class _Waiting:
    """The refused dead letters of a queue, and the timer that publishes them again."""

    def __init__(self, retry: "Deadline") -> None:
        self.letters: deque[_Refused] = deque()
        self.retry = retry


class DeadLetterPublishing:
    """Publisher of the dead letters of a vhost's queues."""

    def __init__(self, host: "QueueHost", deadlines: "Deadlines") -> None:
        self._host = host
        self._deadlines = deadlines
        self._clock = deadlines.clock
        self._waiting: dict[AnyQueue, _Waiting] = {}

    def publish(self, queue: "AnyQueue") -> int:
        """Publish the dead letters that a queue has gathered; return their number."""
        letters = queue.take_dead_letters()
        for letter in letters:
            waiting = self._waiting.get(queue)
            refused: _Refused | None = _Refused(letter)
            if waiting is None or len(waiting.letters) < LETTERS_REFUSED_MAX:
                refused = self._publish(queue, _Refused(letter))
            if refused is not None:
                self._wait(queue, refused)
        return len(letters)

    def forget(self, queue: "AnyQueue") -> None:
        """Stop publishing the dead letters of a deleted queue."""
        waiting = self._waiting.pop(queue, None)
        if waiting is not None:
            waiting.retry.end()

    def _publish(self, queue: "AnyQueue", refused: _Refused) -> _Refused | None:
        """Publish a letter to all but its `takers`; return the letter if it must be retried."""
        attempt = _Attempt(refused)
        if not self._dead_letter(queue, attempt):
            return refused._replace(takers=attempt.takers)
        if attempt.awaited:
            self._settle_later(queue, attempt)
        else:
            queue.dead_letters_stored((attempt.letter,))
        return None

    def _dead_letter(self, queue: "AnyQueue", attempt: _Attempt) -> bool:
        """Publish a letter to all but its takers; return whether it may be settled once stored.

        If not, it is to be published again.
        """
        letter = attempt.letter
        at_least_once = queue.settings.dead_letter_at_least_once
        exchange = queue.settings.dead_letter_exchange
        if letter.message is None or exchange is None:  # None: a policy has removed it since
            return True
        if exchange not in self._host.model.exchanges:
            return not at_least_once
        wall_seconds = self._clock.wall_ms() // 1000
        message, further_keys, deaths = dead_message(
            letter.message, queue.name, queue.settings, letter.reason, wall_seconds
        )
        traits = traits_of(message.header)
        route: Sequence[str] = self._host.model.router.route(
            exchange, message.routing_key, traits.headers, further_keys, message.header
        )
        if not route and at_least_once:
            return False
        route = [name for name in route if not is_cycle(name, deaths, letter.reason)]
        if exchange == DEFAULT_EXCHANGE:
            # A dead letter has no user whose write permission on a topic could be checked.
            route = [name for name in route if not is_target(name)]
        content = published(message, traits)
        if not at_least_once:
            return self._accept_once(route, content._replace(over_length=True), attempt)
        accepted = [self._accepts(name, content, attempt) for name in route]
        return all(accepted)

    def _accept_once(self, route: "Sequence[str]", content: Published, attempt: _Attempt) -> bool:
        """Publish a letter at-most-once; return whether it may be settled once stored."""
        attempt.names = names = [name for name in route if name not in attempt.takers]
        if self._host.publish(names, content, attempt.awaited) or not attempt.lost:
            return True
        # A full queue does not get it, but one whose log has failed may later.
        return all(self._host.targets[name].failure is None for name in names)

    def _accepts(self, name: str, content: Published, attempt: _Attempt) -> bool:
        """Publish a letter to one target, unless it has accepted it; return whether it has now."""
        number = len(attempt.names)
        attempt.names.append(name)
        if name in attempt.takers:
            self._await(name, attempt, number)
            return True
        if not self._host.publish((name,), content, attempt.awaited, number):
            return False
        attempt.takers[name] = self._host.targets[name].last_number
        return True

    def _await(self, name: str, attempt: _Attempt, number: int) -> None:
        """Wait also for a queue or topic that accepted the letter in an earlier attempt."""
        target, target_number = self._host.targets.get(name), attempt.takers[name]
        if target is None or not target.confirms_late:
            return
        if target_number is None:
            attempt.awaited[target] = None
        else:
            note_number(attempt.awaited, target, target_number, number)

    def _settle_later(self, queue: "AnyQueue", attempt: _Attempt) -> None:
        targets = self._host.targets
        attempt.late = [name for name in attempt.names if targets[name] in attempt.awaited]

        def stored(unstored: Collection[int]) -> None:
            if queue.deleted:
                return
            if unstored is ALL_UNSTORED:
                self._wait(queue, attempt.lost_letter())
            elif unstored and queue.settings.dead_letter_at_least_once:
                self._wait(queue, attempt.refused_by(unstored))
            else:
                queue.dead_letters_stored((attempt.letter,))

        self._host.when_stored(attempt.awaited, stored)

    # Refused letters

    def _wait(self, queue: "AnyQueue", refused: _Refused) -> None:
        """Queue a refused letter to be published again after `RETRY_SECONDS`."""
        waiting = self._waiting.get(queue)
        if waiting is None:
            retry = self._deadlines.deadline(partial(self._retry, queue))
            waiting = self._waiting[queue] = _Waiting(retry)
            _log_waiting(queue, lost=refused.lost)
        waiting.letters.append(_unread(refused))
        if waiting.retry.at is None:
            waiting.retry.set(RETRY_SECONDS)

    def _retry(self, queue: "AnyQueue") -> None:
        """Publish the first waiting letters again; those refused again stay before the others."""
        waiting = self._waiting[queue]
        if not self._host.may_act(queue):
            waiting.retry.set(RETRY_SECONDS)
            return
        letters, left = waiting.letters, list[_Refused]()
        for _ in range(min(len(letters), LETTERS_REFUSED_MAX)):
            again = letters.popleft()
            found, unread = with_messages((again.letter,))
            refused: _Refused | None = again
            if not unread:  # else its message is being read from the disk
                refused = self._publish(queue, again._replace(letter=found[0]))
            if refused is not None:
                left.append(_unread(refused))
        letters.extendleft(reversed(left))
        if letters:
            waiting.retry.set(RETRY_SECONDS if left else 0.0)
        else:
            self.forget(queue)


def _unread(refused: _Refused) -> _Refused:
    """Return a letter without its message, which is read from the store again when needed."""
    letter = refused.letter
    return (
        refused if letter.level is None else refused._replace(letter=letter._replace(message=None))
    )


def _log_waiting(queue: "AnyQueue", *, lost: bool) -> None:
    exchange = queue.settings.dead_letter_exchange
    if lost:
        _logger.info(
            "%s: a dead letter by exchange %r is not stored, as a target queue has another leader"
            " or its log has failed. It stays in the queue and is published again each second",
            queue.title, exchange,
        )  # fmt: skip
    else:
        _logger.warning(
            "%s: a dead letter is not accepted by all queues that its exchange %r routes it to,"
            " or has no route. Dead letters stay in the queue and are published again each"
            " second (x-dead-letter-strategy is at-least-once)",
            queue.title, exchange,
        )  # fmt: skip
