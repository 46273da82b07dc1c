"""What is worked out of the configuration, again whenever that is another one."""

from collections.abc import Callable
from typing import Generic, TypeVar

C = TypeVar("C")
T = TypeVar("T")


class Derived(Generic[C, T]):
    """Call it for what holds now. On the deciding thread."""

    __slots__ = ("_changed", "_config", "_derive", "_now", "_seen")

    def __init__(
        self,
        config: Callable[[], C],
        derive: Callable[[C], T],
        changed: Callable[[T], None] = lambda now: None,
    ) -> None:
        """`config` answers with the present one, another object once it was altered.

        `changed` is told what holds from then on, by the first call that comes after.
        """
        self._config = config
        self._derive = derive
        self._changed = changed
        self._seen = config()
        self._now = derive(self._seen)

    def __call__(self) -> T:
        config = self._config()
        if config is not self._seen:
            self._seen = config
            self._now = self._derive(config)
            self._changed(self._now)
        return self._now
