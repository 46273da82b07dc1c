"""`Notices`: nodes by which brokers notify each other of changes in the store.

As in Kafka with ZooKeeper, each broker reads the notices after the last one that it knows. A broker
that reads a notice deletes those it read at least `NOTICE_SECONDS` ago. A broker that was away
longer has missed some.
"""

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

from headrace.ports.clock import Clock
from headrace.ports.store import NoNode, Store

NOTICE_SECONDS = 900.0
"""Seconds that a notice stays in the store after it was read."""

T = TypeVar("T")


class Notices(Generic[T]):
    """The notices below one node, and which of them this broker has read."""

    def __init__(
        self, store: Store, root: str, decode: Callable[[bytes], T | None], clock: Clock
    ) -> None:
        """Create the reader; no notice has been read yet.

        `root`: their parent node. `decode` returns the changed entity, or None.
        """
        self._store = store
        self.root = root
        self._decode = decode
        self._clock = clock
        self._last = ""
        """Name of the newest notice that was read."""
        self._read: deque[tuple[float, str]] = deque()
        """Monotonic time in seconds and name of each read notice that may still exist."""

    async def unread(self) -> dict[str, T | None]:
        """Return the unread notices, oldest first, each with its entity; None: it is malformed."""
        names = [name for name in await self._store.children(self.root) if name > self._last]
        nodes = await self._store.get_all([f"{self.root}/{name}" for name in names])
        return {
            name: None if node is None else self._decode(node.value)
            for name, node in zip(names, nodes, strict=True)
        }

    async def taken(self, notices: dict[str, T | None]) -> None:
        """Mark notices as read; delete the oldest ones."""
        now = self._clock.monotonic()
        for name in notices:
            self._last = name
            self._read.append((now, name))
        while notices and self._read and now - self._read[0][0] >= NOTICE_SECONDS:
            with suppress(NoNode):
                await self._store.delete(f"{self.root}/{self._read.popleft()[1]}")
