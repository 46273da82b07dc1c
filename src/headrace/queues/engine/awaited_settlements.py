"""Settlements of a queue until they are durable on all its replicas.

    settle() --all positions settled--> frame known --frame confirmed--> done

A dead letter is settled later than its rejection: once its targets have stored it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.ports.callbacks import when_all
from headrace.queue_stores.log.log_messages import LogMessages

if TYPE_CHECKING:
    from headrace.queue_stores.log.settlement import Settlement
    from headrace.queue_stores.message_store import MessageStore
    from headrace.queues.engine.priority_level import MessageLevel


class _Waiting:
    """A callback, and the frame that records its settlements; None: not known yet."""

    __slots__ = ("done", "frame", "positions", "settlement")

    def __init__(
        self, settlement: "Settlement", positions: Sequence[int], done: Callable[[], None]
    ) -> None:
        self.settlement = settlement
        self.positions = positions
        self.done = done
        self.frame: int | None = None

    def is_over(self) -> bool:
        """Tell whether all replicas have the settlements."""
        if self.frame is None:
            self.frame = self.settlement.frame_of(self.positions)
        return self.frame is not None and self.frame <= self.settlement.confirmed


class AwaitedSettlements:
    """The callbacks of one queue."""

    def __init__(self) -> None:
        self._waiting: list[_Waiting] = []

    def add(
        self,
        stores: Mapping[int, "MessageStore"],
        positions: Mapping[int, Sequence[int]],
        done: Callable[[], None],
    ) -> None:
        """Call `done` once all settlements so far are durable on all replicas.

        `stores` by priority, and by priority the positions that are settled later, as dead letters.
        """
        logs = [(each, log) for each, log in stores.items() if isinstance(log, LogMessages)]
        count_down = when_all(len(logs), done)
        for priority, log in logs:
            waiting = _Waiting(log.settlement, positions.get(priority, ()), count_down)
            if waiting.is_over():
                count_down()
            else:
                self._waiting.append(waiting)

    def advance(self) -> None:
        """Call the callbacks of settlements that all replicas have now."""
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if each.is_over():
                each.done()
            else:
                self._waiting.append(each)


def uncopied_positions(stores: Mapping[int, "MessageStore"]) -> Iterator[tuple[int, int]]:
    """Yield settled positions that the next leader may not have as settled, each with its priority.

    `stores` by priority.
    """
    for priority, store in stores.items():
        if isinstance(store, LogMessages):
            for position in store.settlement.uncopied:
                yield priority, position


def unsettled_positions(levels: Mapping[int, "MessageLevel"]) -> Iterator[tuple[int, int]]:
    """Yield positions that are neither settled nor ready, each with its priority.

    `levels` by priority, of a queue that has ended: their requeued positions are removed.
    """
    for priority, level in levels.items():
        if isinstance(level.store, LogMessages):
            requeued = {*level.returned.take_all()}
            for position in level.store.settlement.out.positions():
                if position not in requeued:
                    yield priority, position
