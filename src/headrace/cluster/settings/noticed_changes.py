"""`NoticedChanges`: applies changes by other brokers that notices in the store name."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Generic, TypeVar

from headrace.cluster.store.notices import Notices
from headrace.cluster.store.reaction import Reaction
from headrace.ports.store import Store

T = TypeVar("T")


class NoticedChanges(Generic[T]):
    """This broker's watch for one kind of notices. Every method on the deciding thread.

    If notices may have been missed, everything is loaded again with the settings (`ConfigChanges`).
    """

    def __init__(
        self,
        store: Store,
        notices: Sequence[Notices[T]],
        read: Callable[[Iterable[T]], Awaitable[None]],
        change: asyncio.Lock,
        failing: str,
        wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        """Create the watch for one kind of notices.

        `read` reads from the store the entities that notices name, holding lock `change`.

        `failing`: the beginning of the log line if that fails. `wanted`: whether to watch; called
        at the start.
        """
        self._store = store
        self._notices = notices
        self._read = read
        self._change = change
        self._wanted = wanted
        self._reaction = Reaction(self._take, failing)
        self._unwatch: list[Callable[[], None]] = []

    def start(self) -> None:
        """Begin to watch, if `wanted`."""
        if not self._wanted():
            return
        self._unwatch = [
            self._store.watch(notices.root, lambda _: self._reaction.ask())
            for notices in self._notices
        ]
        self._reaction.ask()

    def stop(self) -> None:
        """Cancel the watch."""
        for cancel in self._unwatch:
            cancel()
        self._reaction.cancel()

    async def _take(self) -> None:
        for notices in self._notices:
            unread = await notices.unread()
            told = dict.fromkeys(found for found in unread.values() if found is not None)
            async with self._change:
                await self._read(told)
            await notices.taken(unread)
