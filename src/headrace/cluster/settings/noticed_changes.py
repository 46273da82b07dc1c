"""Settings that other brokers change and tell of by notices: this broker's ear for them."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Generic, TypeVar

from headrace.cluster.store.notices import Notices
from headrace.cluster.store.reaction import Reaction
from headrace.ports.store import Store

T = TypeVar("T")


class NoticedChanges(Generic[T]):
    """Takes up what notices name. Every method on the deciding thread.

    Where notices may have been missed, all is loaded again with the settings (`ConfigChanges`).
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
        """`read` takes up what the store holds of what notices name.

        `change` is held meanwhile: alterations wait. `failing`: what it means that it cannot be.
        `wanted`, asked when it starts: whether to listen at all.
        """
        self._store = store
        self._notices = notices
        self._read = read
        self._change = change
        self._wanted = wanted
        self._reaction = Reaction(self._take, failing)
        self._unwatch: list[Callable[[], None]] = []

    def start(self) -> None:
        """Listen from now on, if it is wanted."""
        if not self._wanted():
            return
        self._unwatch = [
            self._store.watch(notices.root, lambda _: self._reaction.ask())
            for notices in self._notices
        ]
        self._reaction.ask()

    def stop(self) -> None:
        """Listen no more."""
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
