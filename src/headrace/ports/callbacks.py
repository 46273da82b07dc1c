"""Callbacks: how whoever asked is told, once, what came of it.

Rooms that decide cannot await: they are handed a `Done` and call it, now or later. Where several
answers make one, the callbacks below count them. `posix.awaiting` leads from here to `await`.
"""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

Done = Callable[[T], None]
"""Called once, with the answer. `Done[E | None]`: None where all went well, or what went wrong."""


class Once(Generic[T]):
    """Hands on the first answer of several that may come."""

    __slots__ = ("_done",)

    def __init__(self, done: Done[T]) -> None:
        self._done: Done[T] | None = done

    def __call__(self, answer: T) -> None:
        """Answer, unless that was done before."""
        done, self._done = self._done, None
        if done is not None:
            done(answer)


def when_all(count: int, done: Callable[[], None]) -> Callable[..., None]:
    """Call `done` when the returned callback has been called `count` times; at once for 0.

    What the callback is called with is ignored.
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
    """Call `done` with the first error, or None, after `count` answers; at once for 0."""
    errors: list[T] = []
    count_down = when_all(count, lambda: done(errors[0] if errors else None))

    def answered(error: T | None) -> None:
        if error is not None:
            errors.append(error)
        count_down()

    return answered


def gather(count: int, done: Done[dict[K, T]]) -> Callable[[K, T], None]:
    """Call `done` with every answer by its key after `count` answers; at once for 0."""
    answers: dict[K, T] = {}
    count_down = when_all(count, lambda: done(answers))

    def answered(key: K, answer: T) -> None:
        answers[key] = answer
        count_down()

    return answered
