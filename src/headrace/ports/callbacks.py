"""Callbacks that report a result once, for code that cannot `await`.

Rooms below `net` get a `Done` and call it, now or later. The functions below combine several
results. `posix.awaiting` turns a callback into an awaitable.
"""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

Done = Callable[[T], None]
"""A callback with the result, called once. `Done[E | None]`: None for success, or the error."""


def ignore_result(result: object) -> None:
    """Do nothing: for a call whose result changes nothing. A comment there says why."""


class Once(Generic[T]):
    """A callback that passes on its first result and ignores later ones."""

    __slots__ = ("_done",)

    def __init__(self, done: Done[T]) -> None:
        self._done: Done[T] | None = done

    def __call__(self, answer: T) -> None:
        """Pass `answer` on, unless a result was passed before."""
        done, self._done = self._done, None
        if done is not None:
            done(answer)


def when_all(count: int, done: Callable[[], None]) -> Callable[..., None]:
    """Call `done` when the returned callback has been called `count` times; at once for 0.

    The callback's arguments are ignored.
    """
    left = count

    def count_down(*_: object) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            done()

    if count == 0:
        done()
    return count_down


def first_error(count: int, done: Done[T | None]) -> Done[T | None]:
    """Call `done` with the first error, or None, after `count` results; at once for 0."""
    errors: list[T] = []
    count_down = when_all(count, lambda: done(errors[0] if errors else None))

    def answered(error: T | None) -> None:
        if error is not None:
            errors.append(error)
        count_down()

    return answered


def gather(count: int, done: Done[dict[K, T]]) -> Callable[[K, T], None]:
    """Call `done` with all results by key after `count` results; at once for 0."""
    answers: dict[K, T] = {}
    count_down = when_all(count, lambda: done(answers))

    def answered(key: K, answer: T) -> None:
        answers[key] = answer
        count_down()

    return answered
