"""`PausingQueue`: a queue that stands still while its broker may not act as its only leader.

    leads alone ── pause: another broker may lead, too ──► paused
                ◄── begin: the right to lead is here ─────

A paused queue delivers, expires, drops and dead-letters nothing, and chooses no consumer. It
records publishes and settlements: they count if the queue's replicas accept them (ADR 78).
"""

from collections.abc import Sequence

from headrace.queues.engine.message_queue import MessageQueue
from headrace.queues.port import PurgeDone
from headrace.queues.refusals import Refused


class PausingQueue(MessageQueue):
    """A queue's pauses, and the purges that wait for the end of one."""

    _purges: Sequence[PurgeDone] = ()

    def pause(self) -> None:
        """Stand still until `end_pause`; messages that were delivered before are sent now."""
        self.paused = self.consumers.paused = True
        self._end_claims()
        served, self._served = self._served, {}
        for channel in served:
            channel.send()

    def end_pause(self, now: float) -> None:
        """Continue. The time of `x-expires` begins again, as consumers may have to return."""
        self.paused = False
        self.consumers.begin()
        self.touch(now)
        purges, self._purges = self._purges, ()
        for done in purges:
            self.ask_purge(done)

    def ask_purge(self, done: PurgeDone) -> None:
        """Settle all ready messages once the queue is not paused. Implements `port.Queue`."""
        if self.paused and not self.deleted:
            self._purges = [*self._purges, done]
        else:
            super().ask_purge(done)

    def end_purges(self, result: int | Refused) -> None:
        """Answer the purges that wait: the queue is deleted or closed."""
        purges, self._purges = self._purges, ()
        for done in purges:
            done(result)
