"""Targets whose stored messages a publisher waits for, with the numbers of its publishes."""

from collections.abc import Collection
from functools import partial

from headrace.queues.port import ALL_STORED, ALL_UNSTORED, Target, UnstoredDone

Awaited = dict[Target, dict[int, int] | None]
"""The targets that store a publisher's messages some time after they were accepted.

The value of a target that numbers its messages (`Target.last_number`) is the publisher's number of
each message by the target's; of others it is None.
"""


def note_number(awaited: Awaited, target: Target, number: int, own: int) -> None:
    """Note a target's number of a message that is the publisher's number `own`."""
    numbers = awaited.setdefault(target, {})
    if numbers is not None:
        numbers[number] = own


def when_all_stored(awaited: Awaited, done: UnstoredDone) -> None:
    """Call `done` with the publisher's numbers of unstored messages, once all are decided."""
    if not awaited:
        done(ALL_STORED)
        return
    left, lost = len(awaited), False
    unstored: set[int] = set()

    def told(numbers: dict[int, int] | None, found: Collection[int]) -> None:
        nonlocal left, lost
        left -= 1
        if not found:
            pass  # usually all are stored: the numbers need no look
        elif numbers is None:
            lost = True
        else:
            unstored.update(own for each, own in numbers.items() if each in found)
        if not left:
            done(ALL_UNSTORED if lost else unstored)

    for target, numbers in awaited.items():
        target.when_stored(partial(told, numbers))
