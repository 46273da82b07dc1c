"""The embedded store: `Tree` on a thread of its own, with watches and the Store interface.

SQLite's writes wait for the disk, so they never run on the deciding thread. All calls of one store
are done one after the other in the order made.
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
from headrace.posix.store.sqlite_tree import Tree

T = TypeVar("T")
_logger = logging.getLogger(__name__)

FILE_NAME = "headrace-metadata.db"
"""In the first log directory. Kafka ignores files there (directories it would take for logs)."""
SLOW_SECONDS = 5.0
"""What takes longer is said: a topic that somebody waits for may be behind it."""


class EmbeddedStore(Store):
    """`ports.store.Store` for one broker, kept in one SQLite file. Its session is never lost."""

    shared = False

    def __init__(self, path: str) -> None:
        """Open or make the file at `path`; blocks once, for the start. ConfigError."""
        self._tree = Tree(path)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="metadata-store")
        self._watches: dict[str, list[Callable[[str], None]]] = {}
        self._closed = False

    @property
    def session(self) -> int:
        """The owner that our ephemeral nodes carry."""
        return self._tree.session

    @property
    def session_seconds(self) -> float:
        return inf

    def last_heard(self) -> float:
        return inf

    async def get(self, path: str) -> Node:
        return await self._run(lambda: self._tree.get(path))

    async def get_all(self, paths: Sequence[str]) -> list[Node | None]:
        wanted = list(paths)
        return await self._run(lambda: self._tree.get_all(wanted))

    async def children(self, path: str) -> list[str]:
        return await self._run(lambda: self._tree.children(path))

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
            return await self._change(lambda: self._tree.create_with_parents(operation))
        return cast("str", (await self.multi([operation]))[0])

    async def set(self, path: str, value: bytes, version: int = ANY_VERSION) -> Node:
        return cast("Node", (await self.multi([Set(path, value, version)]))[0])

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self.multi([Delete(path, version)])

    async def multi(self, operations: Sequence[Operation]) -> list[Node | str | None]:
        wanted = list(operations)
        return await self._change(lambda: self._tree.multi(wanted))

    def watch(self, path: str, changed: Callable[[str], None]) -> Callable[[], None]:
        watchers = self._watches.setdefault(path, [])
        watchers.append(changed)

        def cancel() -> None:
            if changed in watchers:
                watchers.remove(changed)
            if not watchers and self._watches.get(path) is watchers:
                del self._watches[path]

        return cancel

    async def close(self) -> None:
        if self._closed:
            return
        await self._change(lambda: (None, self._tree.end_session()))
        self._closed = True
        await asyncio.get_running_loop().run_in_executor(self._thread, self._tree.close)
        self._thread.shutdown(wait=False)

    async def _run(self, work: Callable[[], T]) -> T:
        if self._closed:
            raise SessionLost("the metadata store is closed")
        asked = monotonic()
        result, took = await asyncio.get_running_loop().run_in_executor(
            self._thread, _reaching, work
        )
        seconds = monotonic() - asked
        if seconds > SLOW_SECONDS:
            _logger.warning(
                "metadata store: an operation took %.1f s, %.1f of them in the database: is the"
                " disk slow?", seconds, took,
            )  # fmt: skip
        return result

    async def _change(self, work: Callable[[], tuple[T, list[str]]]) -> T:
        """Do `work` and tell watchers of the paths it touched, even if the caller gave up."""

        async def change_and_tell() -> T:
            result, touched = await self._run(work)
            self._tell(touched)
            return result

        return await asyncio.shield(change_and_tell())

    def _tell(self, touched: Sequence[str]) -> None:
        for path in dict.fromkeys(touched):
            for changed in tuple(self._watches.get(path, ())):
                changed(path)


def _reaching(work: Callable[[], T]) -> tuple[T, float]:
    """Do `work` and time it; the database's failures (disk full, I/O error) become the store's."""
    began = monotonic()
    try:
        return work(), monotonic() - began
    except sqlite3.Error as error:
        raise SessionLost(f"metadata store: {error}") from error
