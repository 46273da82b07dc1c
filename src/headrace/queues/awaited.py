"""Targets whose stored messages a publisher waits for, with the numbers of its publishes."""

from collections.abc import Callable, Collection
from functools import partial

from headrace.queues.port import ALL_STORED, ALL_UNSTORED, Target, UnstoredDone


class Awaited(dict[Target, dict[int, int] | None]):
    """The targets that store a publisher's messages some time after they were accepted.

    The value of a target that numbers its messages (`Target.last_number`) is the publisher's number
    of each message by the target's; of others it is None.
    """

    __slots__ = ("_number",)

    def __init__(self, number: Callable[[], int]) -> None:
        """Create an empty table. `number` returns the publisher's number of the present publish."""
        super().__init__()
        self._number = number

    def note_number(self, target: Target, number: int) -> None:
        """Note a target's number of the present publish."""
        numbers = self.setdefault(target, {})
        if numbers is not None:
            numbers[number] = self._number()

    def when_stored(self, done: UnstoredDone) -> None:
        """Call `done` with the publisher's numbers of unstored messages, once all are decided."""
        if not self:
            done(ALL_STORED)
            return
        if len(self) == 1:
            target, numbers = next(iter(self.items()))
            if numbers is None:  # the usual case: nothing to translate
                target.when_stored(done)
                return
        left, lost = len(self), False
        unstored: set[int] = set()

        def told(numbers: dict[int, int] | None, found: Collection[int]) -> None:
            nonlocal left, lost
            left -= 1
            if numbers is not None:
                unstored.update(own for each, own in numbers.items() if each in found)
            elif found:
                lost = True
            if not left:
                done(ALL_UNSTORED if lost else unstored)

        for target, numbers in self.items():
            target.when_stored(partial(told, numbers))
