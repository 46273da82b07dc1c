"""What can be watched: a partition, and a share group's view of one."""

from collections.abc import Callable


class Watched:
    """Keeps who watches; its subclasses call `_wake` when another look may find more."""

    __slots__ = ("_next_watch", "_watchers")

    def __init__(self) -> None:
        self._watchers: dict[int, Callable[[], None]] = {}
        self._next_watch = 0

    def watch(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback()` whenever more may be had, or nothing will be any more.

        Until cancelled by what is returned. The callback must not append.
        """
        token = self._next_watch
        self._next_watch = token + 1
        self._watchers[token] = callback

        def cancel() -> None:
            self._watchers.pop(token, None)

        return cancel

    def _wake(self) -> None:
        for callback in tuple(self._watchers.values()):
            callback()
