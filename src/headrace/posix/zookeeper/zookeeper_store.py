"""A ZooKeeper ensemble as the metadata store.

Answers, watches and the session's fate reach the deciding thread in the order in which ZooKeeper
told them: `hand_over` is called on kazoo's one thread only.
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
"""How often, in parts of the session's timeout, the event loop shows that it runs."""
HEARD_SHARE = 0.15
"""How often, in parts of the session's timeout, it asks something to be heard by the leader."""
CLOSE_SECONDS_MAX = 2.0
"""How long a close waits for ZooKeeper to end the session; it ends by itself afterwards."""
REVIVE_SECONDS = 1.0
REMIND_SECONDS = 60.0
"""How often it is logged that ZooKeeper still does not answer, once the session is over."""
PACKET_BYTES_MAX = 1_000_000
"""ZooKeeper breaks the connection of who sends more than 1 MiB (jute.maxbuffer)."""
OPERATION_BYTES = 100
"""What an operation takes at most beside its path and its value."""


class ZooKeeperSettings(NamedTuple):
    """The keys `zookeeper.*`."""

    connect: str
    """Servers with ports, commas between them; a chroot behind the last."""
    session_seconds: float = 18.0
    connection_seconds: float = 18.0
    in_flight_max: int = 10
    set_acl: bool = False
    credentials: str = ""
    """`user:password` for ZooKeeper's scheme "digest"; nothing: nobody is said to ask."""
    make_chroot: bool = True
    """Whether a chroot that is missing is made."""


class ZooKeeperStore(Store):
    """`ports.store.Store` on ZooKeeper. Made and used on the deciding thread."""

    shared = True

    def __init__(self, settings: ZooKeeperSettings, events: SessionEvents) -> None:
        """Begin a session, and make the chroot as the settings say; blocks. ConfigError."""
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
        self._connected = True
        self._pulse.beat = boot_seconds()
        self._asked = self._pulse.beat
        self._next_beat = self._loop.call_soon(self._beat)
        self._reminder: asyncio.TimerHandle | None = None

    # --- the session ---------------------------------------------------------------------------

    def _begin(self) -> int:
        """Connect; returns the session. ConfigError."""
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
                f"zookeeper.connect={settings.connect}: no server took a session within"
                f" {settings.connection_seconds:g} s (zookeeper.connection.timeout.ms): is"
                f" ZooKeeper running there?"
            )
        return cast("int", client_id[0])

    def _make_chroot(self) -> None:
        """Make the nodes of the chroot where they are missing; blocks."""
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
        return self._pulse.heard

    def _beat(self) -> None:
        """Show that the event loop runs, and be heard by the leader of the ensemble."""
        self._pulse.beat = now = boot_seconds()
        if self._connected and now - self._asked >= self._pulse.session_seconds * HEARD_SHARE:
            self._asked = now
            self._client.sync_async("/")
        seconds = self._pulse.session_seconds * BEAT_SHARE
        self._next_beat = self._loop.call_later(seconds, self._beat)

    def _hand_over(self, work: Callable[[], None]) -> None:
        """Have `work` done on the deciding thread."""
        with suppress(RuntimeError):  # the loop is closed: nobody is left who could want it
            self._loop.call_soon_threadsafe(work)

    def _state_changed(self, state: str) -> None:
        """Take kazoo's word, on its thread."""
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
                "ZooKeeper does not answer: session %#x is kept if it answers within %g s",
                self._session,
                self._pulse.session_seconds,
            )
            self._remind_in(self._pulse.session_seconds)
            self._give_up("ZooKeeper does not answer")
            self._events.lost()
        if state == KazooState.LOST and self._client.has_given_up:
            _logger.error(
                "ZooKeeper (zookeeper.connect=%s) refuses this broker's session, as it does with a"
                " wrong login; trying again every %g s", self._settings.connect, REVIVE_SECONDS,
            )  # fmt: skip
            self._loop.call_later(REVIVE_SECONDS, self._revive)

    def _remind_in(self, seconds: float) -> None:
        self._remind_no_more()
        self._reminder = self._loop.call_later(seconds, self._remind)

    def _remind_no_more(self) -> None:
        if self._reminder is not None:
            self._reminder.cancel()

    def _remind(self) -> None:
        """Log that ZooKeeper still does not answer, and what that means by now."""
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
        """Go on in a session: the one that was lost, or a new one."""
        if session == self._session and self._connected:
            return
        self._remind_no_more()
        goes_on = session == self._session
        self._session = self._client.handler.session = session
        self._connected = True
        self._watches.set_again()
        if goes_on:
            _logger.info("ZooKeeper answers again: session %#x goes on", session)
            self._events.reconnected()
        else:
            _logger.warning(
                "the session at ZooKeeper is over, and with it what this broker held there: it"
                " takes part again as session %#x",
                session,
            )
            self._events.expired()

    def _give_up(self, reason: str) -> None:
        """End the questions that have no answer; who asked is told SessionLost.

        kazoo keeps what is asked after it has lost the connection, and before this thread knows,
        for the next connection: without one it has no end. In the next one of this session it is
        done before whatever is asked then; in another session it is refused.
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
        with suppress(Exception):  # what cannot be ended ends by itself when it is not heard of
            self._client.stop()
            self._client.close()

    # --- what is asked -------------------------------------------------------------------------

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
        missing: list[str] | None = None  # not looked yet: somebody may make them before we do
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
                missing = await self._missing_above(path)  # somebody made one of them

    async def _missing_above(self, path: str) -> list[str]:
        """Return the ancestors that are not there, the topmost first."""
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
        """Ask something once there are not too many questions; StoreError."""
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
    """Let who asked go on, unless he has given up."""
    if not answered.done():
        answered.set_result(answer)


def check_sizes(operations: Sequence[Operation]) -> None:
    """Raise the error of what ZooKeeper would not take, or would break the connection for."""
    taken = 0
    for operation in operations:
        value = operation.value if isinstance(operation, Create | Set) else b""
        taken += len(operation.path.encode()) + len(value) + OPERATION_BYTES
        if isinstance(operation, Delete) and operation.path == "/":
            raise NotEmpty("/")
    if taken > PACKET_BYTES_MAX:
        raise StoreError(f"{taken} bytes at {operations[0].path}: ZooKeeper takes 1 MiB at most")
