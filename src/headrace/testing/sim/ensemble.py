"""A metadata store in memory, and the sessions that several brokers have with it."""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple, TypeVar, cast
from weakref import finalize

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
"""The session timeout, in seconds."""
WAY_SECONDS = (0.0001, 0.002)
"""Least and greatest delay of a request, a response or a watch event, in seconds."""


class Watch(NamedTuple):
    """A watch event of the simulated store that is to be delivered."""

    path: str
    watchers: list[Changed]
    changed: Changed


class Ensemble:
    """The store's tree, common to all sessions. Changes are atomic and in one order."""

    def __init__(self, seed: int, history: History | None = None) -> None:
        """Create an empty store; `seed` determines the delays of messages."""
        self.tree = Tree(":memory:")
        # Its stories end in every way: the database is closed with the last reference to this.
        finalize(self, self.tree.close)
        self.history = history
        self._random = random.Random(f"ensemble {seed}")  # noqa: S311 - not for secrets
        self.observers: list[Callable[[Sequence[str]], None]] = []
        """Called with the paths of each change right after it, before any watch."""
        self.slower = 1.0
        """Factor on all delays."""
        self._sessions: list[EnsembleSession] = []
        self._number = 0

    def session(self, name: str = "", events: SessionEvents | None = None) -> "EnsembleSession":
        """Return a new session of the broker `name`."""
        self._number += 1
        session = EnsembleSession(self, self._number, name, events or SessionEvents())
        self._sessions.append(session)
        return session

    async def way(self) -> None:
        """Wait for the delay of one message to or from the store."""
        await asyncio.sleep(self._random.uniform(*WAY_SECONDS) * self.slower)

    def read(self, session: "EnsembleSession", look: Callable[[Tree], T]) -> T:
        """Return `look(tree)` now. Raises SessionLost."""
        session.check()
        return look(self.tree)

    def change(
        self, session: "EnsembleSession", work: Callable[[Tree], tuple[T, list[str]]]
    ) -> tuple[T, list[str]]:
        """Change the tree and notify other sessions after a delay.

        Return result and changed paths.
        """
        session.check()
        self.tree.session = session.number  # the owner of what it makes ephemeral
        result, touched = work(self.tree)
        self._tell(touched, session)
        return result, touched

    def _tell(self, touched: Sequence[str], cause: "EnsembleSession") -> None:
        if self.history is not None:
            self.history.add("store", cause.name, *touched)
        for observer in self.observers:
            observer(touched)
        loop = asyncio.get_running_loop()
        for session in self._sessions:
            if session is not cause and session.hears(touched):
                loop.call_later(self._random.uniform(*WAY_SECONDS), session.tell_next)

    def expire(self, session: "EnsembleSession") -> None:
        """Expire a session, and begin another for the same broker."""
        session.events.lost()
        self._end_nodes(session)
        self._begin_another(session)

    def cut_off(self, session: "EnsembleSession", *, noticed: bool = True) -> None:
        """Cut a session's broker off from the store.

        The session ends unless `reach_again` comes first.

        Without `noticed` the broker waits for responses and learns of the cut only afterwards.
        """
        if session.lost or session.cut_since is not None:
            return
        loop = asyncio.get_running_loop()
        session.cut_since = loop.time()
        session.cuts += 1
        if noticed:
            session.events.lost()
        else:
            session.back = loop.create_future()
        loop.call_later(SESSION_SECONDS, self._end_if_cut_off, session, session.cuts)

    def reach_again(self, session: "EnsembleSession") -> None:
        """End a cut: the broker continues in its session, or in a new one if that has expired."""
        if session.cut_since is None:
            return
        session.cut_since = None
        if session.back is not None:
            session.back.set_result(None)
            session.back = None
            session.events.lost()
        if session.lost:
            return
        if session.is_over:
            self._begin_another(session)
        else:
            session.tell_all()
            session.events.reconnected()

    def _end_if_cut_off(self, session: "EnsembleSession", cut: int) -> None:
        if session.cut_since is not None and session.cuts == cut:
            self._end_nodes(session)

    def _end_nodes(self, session: "EnsembleSession") -> None:
        """Delete the ephemeral nodes of a session, which has expired."""
        session.is_over = True
        self.tree.session = session.number
        self._tell(self.tree.end_session(), session)

    def _begin_another(self, session: "EnsembleSession") -> None:
        self._number += 1
        session.number = self._number
        session.is_over = False
        session.tell_all()
        session.events.expired()

    def end(self, session: "EnsembleSession") -> None:
        """End a session, at its own request or by its timeout: its ephemeral nodes are deleted."""
        if session.lost:
            return
        session.lost = True
        self._sessions.remove(session)
        self._end_nodes(session)


class EnsembleSession(Store):
    """A broker's session with the simulated metadata store (`ports.store.Store`)."""

    shared = True

    def __init__(self, ensemble: Ensemble, number: int, name: str, events: SessionEvents) -> None:
        """Create a session's state; called by `Ensemble.session` only."""
        self.events = events
        self.number = number
        self.name = name
        self.lost = False
        self.is_over = False
        """Whether its ephemeral nodes are deleted and the broker does not know."""
        self.cut_since: float | None = None
        """Loop time at which a cut began; None: connected."""
        self.cuts = 0
        self.back: asyncio.Future[None] | None = None
        """Done when a cut ends that the broker has not noticed."""
        self._silent_since: float | None = None
        self._ensemble = ensemble
        self._watches: dict[str, list[Changed]] = {}
        self._untold: deque[list[Watch]] = deque()

    def check(self) -> None:
        """Raise SessionLost once the session has ended, or while a noticed cut lasts."""
        if self.lost:
            raise SessionLost("the session has ended")
        if self.cut_since is not None and self.back is None:
            raise SessionLost("the ensemble is not heard of")

    @property
    def session(self) -> int:
        return self.number

    @property
    def session_seconds(self) -> float:
        return SESSION_SECONDS

    def last_heard(self) -> float:
        now = asyncio.get_running_loop().time()
        silent = [since for since in (self._silent_since, self.cut_since) if since is not None]
        return min(silent, default=now)

    def fall_silent(self) -> None:
        """Stop all communication, as after a crash; the session ends after its timeout."""
        if not self.lost:
            loop = asyncio.get_running_loop()
            self._silent_since = loop.time()
            self._watches.clear()
            loop.call_later(SESSION_SECONDS, self._ensemble.end, self)

    def _connection(self) -> tuple[int, int]:
        """Return session number and number of cuts: equal while session and connection last."""
        return self.number, self.cuts

    async def _way(self, asked_in: tuple[int, int]) -> None:
        """Wait for the delay of one message; a silent session's messages never arrive.

        SessionLost if the connection `asked_in` has ended meanwhile.
        """
        await self._ensemble.way()
        if self._silent_since is not None:
            await asyncio.get_running_loop().create_future()
        if self.back is not None:
            await asyncio.shield(self.back)
            raise SessionLost("the ensemble was not heard of")
        if self._connection() != asked_in:
            raise SessionLost("the connection that this was asked by is over")

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
        if self.lost:
            return
        try:
            with suppress(SessionLost):
                await self._way(self._connection())
        except asyncio.CancelledError:
            self.fall_silent()  # the request never arrived: the session ends by its timeout
            raise
        self._ensemble.end(self)

    def hears(self, touched: Sequence[str]) -> bool:
        """Queue the watch events of changed paths; return whether there are any."""
        found = [
            Watch(path, watchers, changed)
            for path in dict.fromkeys(touched)
            for watchers in (self._watches.get(path, []),)
            for changed in watchers
        ]
        if found:
            self._untold.append(found)
        return bool(found)

    def tell_all(self) -> None:
        """Call all watchers, as they may have missed changes."""
        for path, watchers in tuple(self._watches.items()):
            for changed in tuple(watchers):
                changed(path)

    def tell_next(self) -> None:
        """Deliver the oldest queued watch events, except those already delivered or cancelled."""
        for path, watchers, changed in self._untold.popleft() if self._untold else ():
            if changed in watchers and not self.lost and self.cut_since is None:
                changed(path)

    async def _read(self, look: Callable[[Tree], T]) -> T:
        self.check()
        asked_in = self._connection()
        await self._way(asked_in)
        found = self._ensemble.read(self, look)
        await self._way(asked_in)
        return found

    async def _change(self, work: Callable[[Tree], tuple[T, list[str]]]) -> T:
        """Change the tree even if the caller is cancelled; own watches fire before it returns."""

        async def change_and_tell() -> T:
            self.check()
            asked_in = self._connection()
            await self._way(asked_in)
            result, touched = self._ensemble.change(self, work)
            await self._way(asked_in)
            self.hears(touched)
            while self._untold:
                self.tell_next()
            return result

        changing = asyncio.get_running_loop().create_task(change_and_tell())
        # A caller that was cancelled does not hear of the error, and the story goes on.
        changing.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(changing)


def _cancel(watchers: list[Changed], changed: Changed) -> None:
    if changed in watchers:
        watchers.remove(changed)
