"""Notices below one node of the store: what brokers tell each other that they have changed.

As Kafka's brokers with ZooKeeper do it: each broker reads the notices after the last one it knows.
They are removed a quarter of an hour after they were read, by whoever reads the next one. Who was
away longer has missed some.
"""

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

from headrace.ports.clock import Clock
from headrace.ports.store import NoNode, Store

NOTICE_SECONDS = 900.0
"""How long notices stay in the store once they have been read."""

T = TypeVar("T")


class Notices(Generic[T]):
    """What this broker has read of them."""

    def __init__(
        self, store: Store, root: str, decode: Callable[[bytes], T | None], clock: Clock
    ) -> None:
        """`root` is the node they are below; `decode` says what one tells of, None: nothing."""
        self._store = store
        self.root = root
        self._decode = decode
        self._clock = clock
        self._last = ""
        """The newest notice that was read."""
        self._read: deque[tuple[float, str]] = deque()
        """When each notice was read that is still in the store, as far as we know."""

    async def unread(self) -> dict[str, T | None]:
        """Return what is told since, by notice, the oldest first; None: it cannot be understood."""
        names = [name for name in await self._store.children(self.root) if name > self._last]
        nodes = await self._store.get_all([f"{self.root}/{name}" for name in names])
        return {
            name: None if node is None else self._decode(node.value)
            for name, node in zip(names, nodes, strict=True)
        }

    async def taken(self, notices: dict[str, T | None]) -> None:
        """Take these for read; the oldest in the store go."""
        now = self._clock.monotonic()
        for name in notices:
            self._last = name
            self._read.append((now, name))
        while notices and self._read and now - self._read[0][0] >= NOTICE_SECONDS:
            with suppress(NoNode):
                await self._store.delete(f"{self.root}/{self._read.popleft()[1]}")
