"""One metadata store in memory, and the sessions that several brokers have of it."""

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar, cast

from headrace.ports.store import (
    ANY_VERSION,
    Create,
    Delete,
    Node,
    Operation,
    SessionEvents,
    SessionLost,
    Set,
    Store,
)
from headrace.posix.store.sqlite_tree import Tree
from headrace.testing.sim.history import History

T = TypeVar("T")
Changed = Callable[[str], None]

SESSION_SECONDS = 6.0
"""How long a session that is not heard of goes on."""
WAY_SECONDS = (0.0001, 0.002)
"""The least and the most that a question, an answer or a watch's word takes."""


class Watch(NamedTuple):
    """Who is to be told of a change."""

    path: str
    watchers: list[Changed]
    changed: Changed


class Gap(NamedTuple):
    """A time in which a session is not heard of."""

    since: float
    number: int
    """The session's at that time."""
    expiry: asyncio.TimerHandle
    over: "asyncio.Future[None]"


class Ensemble:
    """The tree that all see. Each change is whole before the next one begins."""

    def __init__(self, seed: int, history: History | None = None) -> None:
        """`seed` decides how long things take."""
        self.tree = Tree(":memory:")
        self.history = history
        self._random = random.Random(f"ensemble {seed}")  # noqa: S311 - not for secrets
        self._sessions: list[EnsembleSession] = []
        self._number = 0
        self._ended: set[int] = set()
        """Sessions that ended for their silence."""

    def session(self, name: str = "", events: SessionEvents | None = None) -> "EnsembleSession":
        """Return a new session, of the broker `name`."""
        self._number += 1
        session = EnsembleSession(self, self._number, name, events or SessionEvents())
        self._sessions.append(session)
        return session

    async def way(self) -> None:
        """Be under way to the ensemble, or back."""
        await asyncio.sleep(self._random.uniform(*WAY_SECONDS))

    def read(self, session: "EnsembleSession", look: Callable[[Tree], T]) -> T:
        """Return what the tree says now."""
        session.check()
        return look(self.tree)

    def change(
        self, session: "EnsembleSession", work: Callable[[Tree], tuple[T, list[str]]]
    ) -> tuple[T, list[str]]:
        """Change the tree, and tell all other sessions of it in a while; the paths touched."""
        session.check()
        self.tree.session = session.number  # the owner of what it makes ephemeral
        result, touched = work(self.tree)
        self._tell(touched, session)
        return result, touched

    def _tell(self, touched: Sequence[str], cause: "EnsembleSession") -> None:
        if self.history is not None:
            self.history.add("store", cause.name, *touched)
        loop = asyncio.get_running_loop()
        for session in self._sessions:
            if session is not cause and session.hears(touched):
                loop.call_later(self._random.uniform(*WAY_SECONDS), session.tell_next)

    def expire(self, session: "EnsembleSession") -> None:
        """End a session for its silence, and begin another for the same broker."""
        before = session.number
        self.end_nodes(session)
        self.renew(session, before)
        session.events.lost()
        session.events.expired()

    def end_nodes(self, session: "EnsembleSession") -> None:
        """End a session for its silence: its ephemeral nodes go. Its broker has not heard of it."""
        self.tree.session = session.number
        self._ended.add(session.number)
        self._tell(self.tree.end_session(), session)

    def renew(self, session: "EnsembleSession", before: int) -> bool:
        """Begin another session for the same broker where that one has ended; whether it had."""
        if before not in self._ended:
            return False
        self._number += 1
        session.number = self._number
        return True

    def end(self, session: "EnsembleSession") -> None:
        """End a session, as its own wish or for its silence: its ephemeral nodes go."""
        if session.lost:
            return
        session.lost = True
        self._sessions.remove(session)
        self.tree.session = session.number
        self._tell(self.tree.end_session(), session)


class EnsembleSession(Store):
    """`ports.store.Store` of one broker."""

    shared = True

    def __init__(self, ensemble: Ensemble, number: int, name: str, events: SessionEvents) -> None:
        """Made by `Ensemble.session`."""
        self.events = events
        self.number = number
        self.name = name
        self.lost = False
        self._silent = False
        self._gap: Gap | None = None
        self._ensemble = ensemble
        self._watches: dict[str, list[Changed]] = {}
        self._untold: deque[list[Watch]] = deque()

    def check(self) -> None:
        """Raise SessionLost once it has ended."""
        if self.lost:
            raise SessionLost("the session has ended")

    @property
    def session(self) -> int:
        return self.number

    @property
    def session_seconds(self) -> float:
        return SESSION_SECONDS

    def last_heard(self) -> float:
        return asyncio.get_running_loop().time() if self._gap is None else self._gap.since

    def lose_touch(self) -> None:
        """Be heard no more and hear nothing, until `regain_touch`.

        The session ends if that takes too long; its broker learns of it afterwards.
        """
        if self._gap is None and not self.lost:
            loop = asyncio.get_running_loop()
            expiry = loop.call_later(SESSION_SECONDS, self._ensemble.end_nodes, self)
            self._gap = Gap(loop.time(), self.number, expiry, loop.create_future())

    def regain_touch(self) -> None:
        """Be heard again. What was under way fails: it was done or not."""
        gap, self._gap = self._gap, None
        if gap is None:
            return
        gap.expiry.cancel()
        gap.over.set_result(None)
        if self.lost:
            return
        self.events.lost()
        if self._ensemble.renew(self, gap.number):
            self.events.expired()
        else:
            self.events.reconnected()

    def fall_silent(self) -> None:
        """Say nothing more and hear nothing: the session ends when it has not been heard of."""
        if not self.lost:
            self._silent = True
            self._watches.clear()
            asyncio.get_running_loop().call_later(SESSION_SECONDS, self._ensemble.end, self)

    async def _way(self) -> None:
        """Be under way to the ensemble or back; who has fallen silent never arrives."""
        await self._ensemble.way()
        if self._silent:
            await asyncio.get_running_loop().create_future()
        if self._gap is not None:
            await asyncio.shield(self._gap.over)
            raise SessionLost("the store was not heard of")

    async def get(self, path: str) -> Node:
        return await self._read(lambda tree: tree.get(path))

    async def get_all(self, paths: Sequence[str]) -> list[Node | None]:
        wanted = list(paths)
        return await self._read(lambda tree: tree.get_all(wanted))

    async def children(self, path: str) -> list[str]:
        return await self._read(lambda tree: tree.children(path))

    async def create(
        self,
        path: str,
        value: bytes,
        *,
        ephemeral: bool = False,
        sequential: bool = False,
        parents: bool = False,
    ) -> str:
        operation = Create(path, value, ephemeral, sequential)
        if parents:
            return await self._change(lambda tree: tree.create_with_parents(operation))
        return cast("str", (await self.multi([operation]))[0])

    async def set(self, path: str, value: bytes, version: int = ANY_VERSION) -> Node:
        return cast("Node", (await self.multi([Set(path, value, version)]))[0])

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self.multi([Delete(path, version)])

    async def multi(self, operations: Sequence[Operation]) -> list[Node | str | None]:
        wanted = list(operations)
        return await self._change(lambda tree: tree.multi(wanted))

    def watch(self, path: str, changed: Changed) -> Callable[[], None]:
        watchers = self._watches.setdefault(path, [])
        watchers.append(changed)
        return partial(_cancel, watchers, changed)

    async def close(self) -> None:
        if not self.lost:
            await self._way()
            self._ensemble.end(self)

    def hears(self, touched: Sequence[str]) -> bool:
        """Tell whether there are watches of these paths: told next, in the order of the changes."""
        if self._gap is not None:
            return False
        found = [
            Watch(path, watchers, changed)
            for path in dict.fromkeys(touched)
            for watchers in (self._watches.get(path, []),)
            for changed in watchers
        ]
        if found:
            self._untold.append(found)
        return bool(found)

    def tell_next(self) -> None:
        """Tell those who have waited longest, unless they have been told or have cancelled."""
        for path, watchers, changed in self._untold.popleft() if self._untold else ():
            if changed in watchers and not self.lost:
                changed(path)

    async def _read(self, look: Callable[[Tree], T]) -> T:
        self.check()
        await self._way()
        found = self._ensemble.read(self, look)
        await self._way()
        return found

    async def _change(self, work: Callable[[Tree], tuple[T, list[str]]]) -> T:
        """Change the tree, even if the caller gives up; own watchers hear before he does."""

        async def change_and_tell() -> T:
            self.check()
            await self._way()
            result, touched = self._ensemble.change(self, work)
            await self._way()
            self.hears(touched)
            while self._untold:
                self.tell_next()
            return result

        changing: Awaitable[T] = asyncio.shield(change_and_tell())
        return await changing


def _cancel(watchers: list[Changed], changed: Changed) -> None:
    if changed in watchers:
        watchers.remove(changed)
