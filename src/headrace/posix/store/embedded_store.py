"""`EmbeddedStore`: the SQLite metadata store on a thread of its own, with sessions and watches.

SQLite's writes wait for the disk, so they never run on the deciding thread. Calls of one file are
executed one after the other, in the order made.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import inf
from time import monotonic
from typing import TypeVar, cast

from headrace.ports.store import (
    ANY_VERSION,
    Create,
    Delete,
    Node,
    Operation,
    SessionLost,
    Set,
    Store,
)
from headrace.posix.awaiting import carried_on
from headrace.posix.store.sqlite_tree import Tree

T = TypeVar("T")
_logger = logging.getLogger(__name__)

SLOW_SECONDS = 5.0
"""Seconds after which a slow operation is logged: a topic creation may be waiting for it."""


class StoreFile:
    """A SQLite file on a thread of its own, with its sessions."""

    def __init__(self, path: str) -> None:
        """Open or create the file at `path`; blocks once, at the start. Raises ConfigError."""
        self._tree = Tree(path)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="metadata-store")
        self._sessions: list[EmbeddedStore] = []
        self._begun = False

    def begin(self, session: "EmbeddedStore") -> int:
        """Begin a session, notified of changes until `end`; return its number. Blocks once."""
        number = self._tree.session  # the opening began this one
        if self._begun:
            number = self._thread.submit(self._tree.begin_session).result()
        self._begun = True
        self._sessions.append(session)
        return number

    async def end(self, session: "EmbeddedStore") -> None:
        """End a session and delete its ephemeral nodes."""
        await self.change(session.session, lambda tree: (None, tree.end_session()))
        self._sessions.remove(session)

    async def read(self, look: Callable[[Tree], T]) -> T:
        """Return the result of `look` on the tree; SessionLost if the database fails."""
        asked = monotonic()
        result, took = await asyncio.get_running_loop().run_in_executor(
            self._thread, _reaching, look, self._tree
        )
        seconds = monotonic() - asked
        if seconds > SLOW_SECONDS:
            _logger.warning(
                "metadata store: an operation took %.1f s, of which %.1f s in the database: is the"
                " disk slow?", seconds, took,
            )  # fmt: skip
        return result

    async def change(self, number: int, work: Callable[[Tree], tuple[T, list[str]]]) -> T:
        """Run `work` in session `number`, then notify watchers of the paths it touched.

        Completes even if the caller is cancelled.
        """

        def change_in_session(tree: Tree) -> tuple[T, list[str]]:
            tree.session = number  # owner of the ephemeral nodes that it creates
            return work(tree)

        async def change_and_tell() -> T:
            result, touched = await self.read(change_in_session)
            for session in tuple(self._sessions):
                session.tell(touched)
            return result

        return await carried_on(change_and_tell())

    async def close(self) -> None:
        """Close the file, which ends its sessions."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._tree.close)
        self._thread.shutdown(wait=False)


class EmbeddedStore(Store):
    """A `Store` in one SQLite file: of one broker, or of several brokers in one process.

    Its session is never lost.
    """

    def __init__(self, file: str | StoreFile) -> None:
        """Open or create the file, closed with this session; or join a shared StoreFile.

        Blocks once, at the start. Raises ConfigError.
        """
        self.shared = isinstance(file, StoreFile)
        self._file = file if isinstance(file, StoreFile) else StoreFile(file)
        self._number = self._file.begin(self)
        self._watches: dict[str, list[Callable[[str], None]]] = {}
        self._closed = False

    @property
    def session(self) -> int:
        """The owner number of this session's ephemeral nodes."""
        return self._number

    @property
    def session_seconds(self) -> float:
        return inf

    def last_heard(self) -> float:
        return inf

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

    def watch(self, path: str, changed: Callable[[str], None]) -> Callable[[], None]:
        watchers = self._watches.setdefault(path, [])
        watchers.append(changed)

        def cancel() -> None:
            if changed in watchers:
                watchers.remove(changed)
            if not watchers and self._watches.get(path) is watchers:
                del self._watches[path]

        return cancel

    def tell(self, touched: Sequence[str]) -> None:
        """Call the watchers of these paths."""
        for path in dict.fromkeys(touched):
            for changed in tuple(self._watches.get(path, ())):
                changed(path)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await self._file.end(self)
        if not self.shared:
            await self._file.close()

    async def _read(self, look: Callable[[Tree], T]) -> T:
        self._check()
        return await self._file.read(look)

    async def _change(self, work: Callable[[Tree], tuple[T, list[str]]]) -> T:
        self._check()
        return await self._file.change(self._number, work)

    def _check(self) -> None:
        if self._closed:
            raise SessionLost("the metadata store is closed")


def _reaching(work: Callable[[Tree], T], tree: Tree) -> tuple[T, float]:
    """Return the result of `work` and its duration in seconds.

    sqlite3 errors (disk full, I/O error) become SessionLost.
    """
    began = monotonic()
    try:
        return work(tree), monotonic() - began
    except sqlite3.Error as error:
        raise SessionLost(f"metadata store: {error}") from error
