"""What can be watched: a partition, and a share group's view of one."""

from collections.abc import Callable, Iterable


class Watched:
    """Keeps who watches; its subclasses call `_wake` when another look may find more."""

    __slots__ = ("_watchers",)

    def __init__(self) -> None:
        self._watchers: dict[Callable[[], None], None] = {}
        """In the order of their coming."""

    def watch(self, callback: Callable[[], None]) -> None:
        """Call `callback()` whenever more may be had, other offsets told, or nothing any more.

        Until `unwatch`. The callback must not append.
        """
        self._watchers[callback] = None

    def unwatch(self, callback: Callable[[], None]) -> None:
        """Call `callback` no more; one that does not watch is ignored."""
        self._watchers.pop(callback, None)

    def _wake(self) -> None:
        wake(self._watchers)


def wake(watchers: Iterable[Callable[[], None]]) -> None:
    """Call back those who watch; who comes meanwhile is not called."""
    for callback in tuple(watchers):
        callback()
