"""`Watched`: an object with watchers, such as a partition or a share group's view of one."""

from collections.abc import Callable, Iterable


class Watched:
    """A registry of callbacks; subclasses call `_wake` when there may be more to read."""

    __slots__ = ("_watchers",)

    def __init__(self) -> None:
        self._watchers: dict[Callable[[], None], None] = {}
        """The callbacks, in the order of registration."""

    def watch(self, callback: Callable[[], None]) -> None:
        """Call `callback()` when there may be more to read, offsets changed, or serving ended.

        Until `unwatch`. The callback must not append.
        """
        self._watchers[callback] = None

    def unwatch(self, callback: Callable[[], None]) -> None:
        """Stop calling `callback`; an unknown one is ignored."""
        self._watchers.pop(callback, None)

    def _wake(self) -> None:
        wake(self._watchers)


def wake(watchers: Iterable[Callable[[], None]]) -> None:
    """Call all watchers registered now; ones that are added meanwhile are not called."""
    for callback in tuple(watchers):
        callback()
