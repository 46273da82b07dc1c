"""`ChangingQueue`: a queue whose settings change while it runs, as a policy of it does.

    max-length, max-length-bytes, overflow   messages over the limit are dropped in slices
    message-ttl                              for later publishes, as expiries are set by `publish`
    expires                                  the time without use begins again
    dead-letter-exchange removed             dead letters that are not published are dropped
    all others                               read by the next call that needs them

A slice is one turn of the loop. Publishes between two slices drop a few messages each, so that the
queue gets shorter however fast its publishers are.
"""

from abc import abstractmethod

from headrace.queue_stores.queue_settings import QueueSettings
from headrace.queues.engine.message_queue import MessageQueue
from headrace.queues.engine.ready_messages import DEAD_LETTER_COST, TRIMMED_AT_ONCE

TRIMMED_BETWEEN = 2 * DEAD_LETTER_COST
"""Messages that a publish between two slices drops at most: more than it adds."""


class ChangingQueue(MessageQueue):
    """A queue's changes of settings, and the slices in which it drops messages after one."""

    timed: bool

    @abstractmethod
    def deliver_later(self) -> None:
        """Have the queue deliver, expire and drop messages in a later turn of the loop."""

    def change(self, settings: QueueSettings, now: float) -> None:
        """Use other settings; those that only arguments set are equal to the former ones."""
        before, self.settings = self.settings, settings
        self.consumer_timeout_ms = settings.consumer_timeout_ms
        self._limited = settings.is_limited
        # Messages that were published before keep their expiries.
        self._expiring = self._expiring or settings.ttl_ms is not None
        self.timed = self._expiring or settings.expires_ms is not None
        self.takes_turns = bool(self.consumers) or settings.dead_letters
        if settings.expires_ms != before.expires_ms:
            self.touch(now)
        if not settings.dead_letters:
            letters, self._dying = self._dying, []
            self.dead_letters_stored(letters)
        self.deliver_later()

    def _trim_later(self) -> None:
        if self._trimmed_max == TRIMMED_AT_ONCE:
            self._trimmed_max = TRIMMED_BETWEEN
            self.deliver_later()

    def begin_slice(self) -> None:
        """Let the next turn drop a whole slice of messages over a limit."""
        self._trimmed_max = TRIMMED_AT_ONCE
