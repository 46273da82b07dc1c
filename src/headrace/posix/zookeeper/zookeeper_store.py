"""`ZooKeeperStore`: a ZooKeeper ensemble as the metadata store.

    connected ── no answer ──> lost ── same session answers ──> reconnected
                                └───── session expired ───────> a new session begins

Answers, watches and session events reach the deciding thread in ZooKeeper's order: `hand_over` is
called on kazoo's single thread only.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, cast

from kazoo.protocol.states import KazooState

from headrace.model.errors import ConfigError
from headrace.ports.store import (
    ANY_VERSION,
    Create,
    Delete,
    Node,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    SessionEvents,
    SessionLost,
    Set,
    Store,
    StoreError,
)
from headrace.posix.clock import boot_seconds
from headrace.posix.zookeeper.access import access
from headrace.posix.zookeeper.connection import Client, Pulse
from headrace.posix.zookeeper.translation import (
    add_operation,
    node_of,
    results_of,
    store_error,
)
from headrace.posix.zookeeper.watches import Watches

_logger = logging.getLogger(__name__)

BEAT_SHARE = 0.05
"""Interval of the event loop's signs of life, as a share of the session timeout."""
HEARD_SHARE = 0.15
"""Interval of requests that the ensemble's leader must answer, as a share of the timeout."""
CLOSE_SECONDS_MAX = 2.0
"""Seconds that `close` waits for the end of the session; ZooKeeper ends it later otherwise."""
REVIVE_SECONDS = 1.0
REMIND_SECONDS = 60.0
"""Seconds between log lines while ZooKeeper does not answer and the session is over."""
PACKET_BYTES_MAX = 1_000_000
"""Limit of a request's size; ZooKeeper closes the connection above 1 MiB (jute.maxbuffer)."""
OPERATION_BYTES = 100
"""Most bytes of an operation in addition to its path and value."""


class ZooKeeperSettings(NamedTuple):
    """The settings `zookeeper.*`."""

    connect: str
    """Servers with ports, separated by commas; a chroot after the last."""
    session_seconds: float = 18.0
    connection_seconds: float = 18.0
    in_flight_max: int = 10
    set_acl: bool = False
    credentials: str = ""
    """`user:password` for ZooKeeper's scheme "digest"; "" for no authentication."""
    make_chroot: bool = True
    """Whether to create a missing chroot."""


class ZooKeeperStore(Store):
    """A `Store` on ZooKeeper. For the deciding thread."""

    shared = True

    def __init__(self, settings: ZooKeeperSettings, events: SessionEvents) -> None:
        """Begin a session and create the chroot if so set; blocks. Raises ConfigError."""
        self._loop = asyncio.get_running_loop()
        self._settings = settings
        self._events = events
        self._pulse = Pulse(settings.session_seconds)
        auth = [("digest", settings.credentials)] if settings.credentials else []
        try:
            self._client = Client(settings.connect, self._pulse, auth)
        except ValueError as error:
            raise ConfigError(f"zookeeper.connect={settings.connect}: {error}") from error
        self._watches = Watches(self._client, self._hand_over)
        self._free = asyncio.Semaphore(settings.in_flight_max)
        self._unanswered: set[asyncio.Future[Any]] = set()
        self._closed = False
        self._session = self._begin()
        self._client.handler.session = self._session
        self._heard = self._pulse.heard
        """Last sign of life in `_session`. kazoo's thread may have begun another one since."""
        self._connected = True
        self._pulse.beat = boot_seconds()
        self._asked = self._pulse.beat
        self._next_beat = self._loop.call_soon(self._beat)
        self._reminder: asyncio.TimerHandle | None = None

    # --- the session ---------------------------------------------------------------------------

    def _begin(self) -> int:
        """Connect; return the session id. Raises ConfigError."""
        client, settings = self._client, self._settings
        client.add_listener(self._state_changed)
        live = client.start_async()
        live.wait(settings.connection_seconds)
        try:
            if client.connected and settings.make_chroot:
                self._make_chroot()
            client_id = client.client_id
        except Exception as error:
            self._end()
            raise ConfigError(f"zookeeper.connect={settings.connect}: {error!r}") from error
        if client_id is None:
            self._end()
            raise ConfigError(
                f"zookeeper.connect={settings.connect}: no server accepted a session within"
                f" {settings.connection_seconds:g} s (zookeeper.connection.timeout.ms): is"
                f" ZooKeeper running there?"
            )
        return cast("int", client_id[0])

    def _make_chroot(self) -> None:
        """Create the missing nodes of the chroot; blocks."""
        client, chroot = self._client, self._client.chroot
        client.chroot = ""
        try:
            if chroot and not client.exists(chroot):
                client.ensure_path(chroot, access(chroot, set_acl=self._settings.set_acl))
        finally:
            client.chroot = chroot

    @property
    def session(self) -> int:
        return self._session

    @property
    def session_seconds(self) -> float:
        return self._pulse.session_seconds

    def last_heard(self) -> float:
        heard = self._pulse.heard
        if self._pulse.session == self._session:
            self._heard = heard
        return self._heard

    def _beat(self) -> None:
        """Record that the event loop runs, and send a request that the leader answers."""
        self._pulse.beat = now = boot_seconds()
        self.last_heard()  # in case a new session begins before it is asked for
        if self._connected and now - self._asked >= self._pulse.session_seconds * HEARD_SHARE:
            self._asked = now
            self._client.sync_async("/")
        seconds = self._pulse.session_seconds * BEAT_SHARE
        self._next_beat = self._loop.call_later(seconds, self._beat)

    def _hand_over(self, work: Callable[[], None]) -> None:
        """Run `work` on the deciding thread."""
        with suppress(RuntimeError):  # the loop is closed: no caller is left
            self._loop.call_soon_threadsafe(work)

    def _state_changed(self, state: str) -> None:
        """Pass a change of kazoo's state to the deciding thread. Called on kazoo's thread."""
        client_id = self._client.client_id
        session = None if client_id is None else client_id[0]
        self._hand_over(lambda: self._take_state(state, session))

    def _take_state(self, state: str, session: int | None) -> None:
        if self._closed:
            return
        if state == KazooState.CONNECTED and session is not None:
            self._found(session)
            return
        if self._connected:
            self._connected = False
            _logger.warning(
                "ZooKeeper does not answer: session %#x expires unless it answers within %g s",
                self._session,
                self._pulse.session_seconds,
            )
            self._remind_in(self._pulse.session_seconds)
            self._give_up("ZooKeeper does not answer")
            self._events.lost()
        if state == KazooState.LOST and self._client.has_given_up:
            _logger.error(
                "ZooKeeper (zookeeper.connect=%s) refuses this broker's session, perhaps for wrong"
                " credentials; retrying every %g s", self._settings.connect, REVIVE_SECONDS,
            )  # fmt: skip
            self._loop.call_later(REVIVE_SECONDS, self._revive)

    def _remind_in(self, seconds: float) -> None:
        self._remind_no_more()
        self._reminder = self._loop.call_later(seconds, self._remind)

    def _remind_no_more(self) -> None:
        if self._reminder is not None:
            self._reminder.cancel()

    def _remind(self) -> None:
        """Log that ZooKeeper still does not answer, and the consequences."""
        if self._closed or self._connected:
            return
        _logger.error(
            "ZooKeeper (zookeeper.connect=%s) has not answered for %.0f s: session %#x has expired"
            " or will expire when ZooKeeper is back, and another broker may lead this broker's"
            " partitions. Check that ZooKeeper runs and that this broker reaches it; the broker"
            " keeps trying to connect",
            self._settings.connect, boot_seconds() - self._pulse.heard, self._session,
        )  # fmt: skip
        self._remind_in(REMIND_SECONDS)

    def _found(self, session: int) -> None:
        """Continue in a session after a reconnection: the former one or a new one."""
        if session == self._session and self._connected:
            return
        self._remind_no_more()
        goes_on = session == self._session
        self._session = self._client.handler.session = session
        self._connected = True
        self._watches.set_again()
        if goes_on:
            _logger.info("ZooKeeper answers again: session %#x continues", session)
            self._events.reconnected()
        else:
            _logger.warning(
                "the ZooKeeper session has expired, and with it this broker's registration; it"
                " registers again in session %#x",
                session,
            )
            self._events.expired()

    def _give_up(self, reason: str) -> None:
        """Fail all unanswered requests with SessionLost.

        kazoo keeps requests that were made after a connection loss and before this thread knows of
        it. In the next connection of this session they are sent before any later ones; in another
        session they are refused.
        """
        for answered in self._unanswered:
            if not answered.done():
                answered.set_exception(SessionLost(reason))

    def _revive(self) -> None:
        if not self._closed:
            self._client.handler.spawn(self._client.start_async)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._next_beat.cancel()
        self._remind_no_more()
        ended = asyncio.Event()

        def end() -> None:
            self._end()
            self._hand_over(ended.set)

        self._client.handler.spawn(end)
        with suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), CLOSE_SECONDS_MAX)
        self._give_up("the metadata store is closed")

    def _end(self) -> None:
        """End the session and the connection; blocks."""
        with suppress(Exception):  # otherwise the session expires by itself
            self._client.stop()
            self._client.close()

    # requests

    async def get(self, path: str) -> Node:
        value, stat = await self._ask(path, lambda client: client.get_async(path))
        return node_of(value, stat)

    async def get_all(self, paths: Sequence[str]) -> list[Node | None]:
        return await asyncio.gather(*map(self._find, paths))

    async def _find(self, path: str) -> Node | None:
        try:
            return await self.get(path)
        except NoNode:
            return None

    async def children(self, path: str) -> list[str]:
        return sorted(await self._ask(path, lambda client: client.get_children_async(path)))

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
        missing: list[str] | None = None  # not checked yet: another client may create them first
        while True:
            try:
                above: list[Operation] = [Create(parent, b"") for parent in missing or ()]
                return cast("str", (await self.multi([*above, operation]))[-1])
            except NoNode:
                if not parents:
                    raise
                found = await self._missing_above(path)
                if found == missing:
                    raise
                missing = found
            except NodeExists as error:
                if str(error) == path:
                    raise
                missing = await self._missing_above(path)  # another client created one of them

    async def _missing_above(self, path: str) -> list[str]:
        """Return the missing ancestors of `path`, topmost first."""
        parts = path.split("/")
        above = ["/".join(parts[:count]) for count in range(2, len(parts))]
        found = await self.get_all(above)
        return [parent for parent, node in zip(above, found, strict=True) if node is None]

    async def set(self, path: str, value: bytes, version: int = ANY_VERSION) -> Node:
        return cast("Node", (await self.multi([Set(path, value, version)]))[0])

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self.multi([Delete(path, version)])

    async def multi(self, operations: Sequence[Operation]) -> list[Node | str | None]:
        wanted = list(operations)
        if not wanted:
            return []
        check_sizes(wanted)

        def begin(client: Client) -> Any:
            transaction = client.transaction()
            for operation in wanted:
                add_operation(transaction, operation, set_acl=self._settings.set_acl)
            return transaction.commit_async()

        found = await self._ask(wanted[0].path, begin)
        return results_of(wanted, found)

    async def _ask(self, path: str, begin: Callable[[Client], Any]) -> Any:
        """Send a request, at most `in_flight_max` at a time; raises StoreError."""
        async with self._free:
            if self._closed:
                raise SessionLost("the metadata store is closed")
            if not self._connected:
                raise SessionLost(f"ZooKeeper does not answer: {path}")
            answered: asyncio.Future[Any] = self._loop.create_future()

            def take(answer: Any) -> None:
                self._hand_over(partial(_answer, answered, answer))

            asked = self._loop.time()
            begin(self._client).rawlink(take)
            self._unanswered.add(answered)
            try:
                answer = await answered
            finally:
                self._unanswered.discard(answered)
                self._events.answered(self._loop.time() - asked)
        if answer.exception is not None:
            raise store_error(answer.exception, path) from answer.exception
        return answer.value

    def watch(self, path: str, changed: Callable[[str], None]) -> Callable[[], None]:
        return self._watches.add(path, changed)


def _answer(answered: "asyncio.Future[Any]", answer: Any) -> None:
    """Resolve a request, unless its caller was cancelled."""
    if not answered.done():
        answered.set_result(answer)


def check_sizes(operations: Sequence[Operation]) -> None:
    """Raise an error for operations that ZooKeeper refuses, or closes the connection for."""
    taken = 0
    for operation in operations:
        value = operation.value if isinstance(operation, Create | Set) else b""
        taken += len(operation.path.encode()) + len(value) + OPERATION_BYTES
        if isinstance(operation, Delete) and operation.path == "/":
            raise NotEmpty("/")
    if taken > PACKET_BYTES_MAX:
        raise StoreError(f"{taken} bytes at {operations[0].path}: ZooKeeper accepts at most 1 MiB")
