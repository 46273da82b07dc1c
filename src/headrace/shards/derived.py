"""`Derived`: an object derived from the configuration, computed once for each configuration."""

from collections.abc import Callable
from typing import Generic, TypeVar

C = TypeVar("C")
T = TypeVar("T")


class Derived(Generic[C, T]):
    """Returns, when called, what `derive` makes of the configuration. On the deciding thread."""

    __slots__ = ("_changed", "_config", "_derive", "_now", "_seen")

    def __init__(
        self,
        config: Callable[[], C],
        derive: Callable[[C], T],
        changed: Callable[[T], None] = lambda now: None,
    ) -> None:
        """Derive at once. `config` returns another object after each change of the configuration.
        `changed` receives the new result, in the first call after a change."""
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
