"""`HandedQueue`: the part of a queue that its next leader continues: settlements and deliveries."""

from collections.abc import Callable, Sequence

from headrace.queue_stores.log.log_messages import LogMessages
from headrace.queue_stores.message_store import MessageStore
from headrace.queues.engine.awaited_settlements import (
    AwaitedSettlements,
    uncopied_positions,
    unsettled_positions,
)
from headrace.queues.engine.message_queue import MessageQueue
from headrace.queues.port import Disposition, Handover


class HandedQueue(MessageQueue):
    """A queue's settlements that wait for replicas, and its handover to the next leader."""

    settlements: AwaitedSettlements | None = None
    """Callbacks that wait until replicas have settlements; None: there never was one."""

    def when_settled(self, positions: Sequence[int], done: Callable[[], None]) -> None:
        """Call `done` once all settlements so far are durable on all replicas.

        `positions`: those among them that are settled later, as dead letters.
        """
        if self.settlements is None:
            self.settlements = AwaitedSettlements()
        later: dict[int, list[int]] = {}
        for position in positions:
            own, priority = divmod(position, self._width)
            later.setdefault(priority, []).append(own)
        self.settlements.add(self._stores_by_priority, later, done)

    def lacks_below(self, priority: int, below: int) -> bool:
        """Tell whether the log has messages below a position that are not committed yet."""
        level = self._levels.get(priority)
        if level is None or level.fresh or not isinstance(level.store, LogMessages):
            return False
        return level.store.counted_to < below <= level.store.end

    @property
    def _stores_by_priority(self) -> dict[int, MessageStore]:
        return {priority: level.store for priority, level in self._levels.items()}

    def handover(self) -> Handover:
        """Return what the next leader is to be told, but for purges. Call it after `resign`."""
        consumers, width = list(self.consumers), self._width
        settled = uncopied_positions(self._stores_by_priority)
        known = {position for each in consumers for position in each.channel.positions_of(each)}
        held = [
            position
            for priority, own in unsettled_positions(self._levels)
            if (position := own * width + priority) not in known
            and (priority, own) not in self._rejected
        ]
        if len(held) != self.unacked - len(known):
            held = []  # some are dead letters that are not stored: they are made again
        return Handover(
            consumers,
            {
                Disposition.ACKNOWLEDGED: [own * width + priority for priority, own in settled],
                Disposition.REJECTED: [own * width + priority for priority, own in self._rejected],
            },
            held,
        )

    @property
    def is_settled(self) -> bool:
        """Whether nothing is delivered and unsettled, and all replicas have all settlements."""
        uncopied = uncopied_positions(self._stores_by_priority)
        return not self.unacked and not self._rejected and next(uncopied, None) is None
