"""The parts of the store on ZooKeeper that need none; the rest is judged by `make cluster-test`."""

import asyncio
import subprocess
import sys
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from kazoo import exceptions
from kazoo.protocol.states import EventType, KazooState
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from headrace.config.broker import load
from headrace.config.installing import install_command
from headrace.ports.store import (
    BadVersion,
    Check,
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
    StoreError,
)
from headrace.posix.clock import boot_seconds
from headrace.posix.zookeeper import zookeeper_store
from headrace.posix.zookeeper.access import access
from headrace.posix.zookeeper.connection import Pulse
from headrace.posix.zookeeper.translation import results_of, store_error
from headrace.posix.zookeeper.watches import Watches
from headrace.server import real_world
from headrace.testing.sim.loop import SimLoop


class Stat(NamedTuple):
    version: int
    czxid: int
    ephemeralOwner: int  # noqa: N815 - ZooKeeper's name


class Event(NamedTuple):
    type: str


class Server:
    """Where watches are set: each is told once, as ZooKeeper's are."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.node: dict[str, Callable[[Any], None]] = {}
        self.below: dict[str, Callable[[Any], None]] = {}

    def exists_async(self, path: str, watch: Callable[[Any], None]) -> None:
        self.asked.append(("node", path))
        self.node[path] = watch

    def get_children_async(self, path: str, watch: Callable[[Any], None]) -> None:
        self.asked.append(("children", path))
        self.below[path] = watch

    def tell(self, path: str, kind: str) -> None:
        """Tell those whom it concerns, and forget them."""
        self.asked.clear()
        watches = [self.below.pop(path, None)] if kind == EventType.CHILD else []
        if kind != EventType.CHILD:
            watches.append(self.node.pop(path, None))
        if kind == EventType.DELETED:
            watches.append(self.below.pop(path, None))
        for watch in watches:
            if watch is not None:
                watch(Event(kind))


def watching(server: Server) -> Watches:
    return Watches(server, lambda work: work())


@pytest.mark.parametrize(
    ("kind", "set_again"),
    [
        (EventType.CHANGED, ["node"]),
        (EventType.CHILD, ["children"]),
        (EventType.CREATED, ["node", "children"]),
        (EventType.DELETED, ["node"]),
    ],
)
def test_a_watch_is_set_again_before_its_change_is_told_and_told_once(
    kind: str, set_again: list[str]
) -> None:
    server = Server()
    told: list[list[str]] = []
    watching(server).add("/w", lambda _: told.append([what for what, _ in server.asked]))
    server.tell("/w", kind)
    assert told == [set_again]


def test_a_lost_connection_is_no_change_and_a_new_one_has_everybody_look() -> None:
    server, told = Server(), list[str]()
    watches = watching(server)
    watches.add("/a", told.append)
    watches.add("/b", told.append)
    watches.add("/b", told.append)
    server.tell("/a", EventType.NONE)
    assert not told
    watches.set_again()
    kinds = ("node", "children")
    assert server.asked == [(kind, path) for path in ("/a", "/b") for kind in kinds]
    assert told == ["/a", "/b", "/b"]


def test_who_has_cancelled_is_told_nothing_and_who_watches_anew_is() -> None:
    server, told = Server(), list[str]()
    watches = watching(server)
    cancel = watches.add("/w", told.append)
    former = server.node["/w"]
    cancel()
    cancel()
    watches.add("/w", told.append)
    former(Event(EventType.CHANGED))
    assert not told
    server.tell("/w", EventType.CHANGED)
    assert told == ["/w"]


def test_nodes_are_open_unless_access_is_set_and_passwords_are_read_by_nobody_else() -> None:
    open_to_all, ours = list(OPEN_ACL_UNSAFE), list(CREATOR_ALL_ACL)
    assert access("/config/users/u", set_acl=False) == open_to_all
    assert access("/brokers/topics/t", set_acl=True) == [*ours, *READ_ACL_UNSAFE]
    assert access("/consumers", set_acl=True) == open_to_all
    for path in ("/config/users", "/config/users/u", "/config/brokers/1"):
        assert access(path, set_acl=True) == ours
    assert access("/config/usersandmore", set_acl=True) != ours


@pytest.mark.parametrize(
    ("error", "ours"),
    [
        (exceptions.NoNodeError, NoNode),
        (exceptions.NoChildrenForEphemeralsError, NoNode),
        (exceptions.NodeExistsError, NodeExists),
        (exceptions.BadVersionError, BadVersion),
        (exceptions.NotEmptyError, NotEmpty),
        (exceptions.ConnectionLoss, SessionLost),
        (exceptions.ConnectionClosedError, SessionLost),
        (exceptions.SessionExpiredError, SessionLost),
        (exceptions.SessionMovedError, SessionLost),
        (exceptions.NoAuthError, StoreError),
        (exceptions.MarshallingError, StoreError),
    ],
)
def test_kazoos_errors_are_the_stores(error: type[Exception], ours: type[StoreError]) -> None:
    found = store_error(error(), "/p")
    assert type(found) is ours
    assert "/p" in str(found)


def test_of_several_operations_the_first_that_failed_is_told() -> None:
    operations: list[Operation] = [Create("/a", b""), Set("/b", b"v"), Delete("/c"), Check("/d", 3)]
    failed = [
        exceptions.RolledBackError(), exceptions.BadVersionError(),
        exceptions.RuntimeInconsistency(), exceptions.RuntimeInconsistency(),
    ]  # fmt: skip
    with pytest.raises(BadVersion, match="/b"):
        results_of(operations, failed)
    done = ["/a", Stat(4, 7, 0), True, True]
    assert results_of(operations, done) == ["/a", Node(b"v", 4, 7, 0), None, None]


def test_a_loop_stands_still_a_quarter_of_its_session_after_its_last_beat() -> None:
    pulse = Pulse(8.0)
    assert not pulse.stands_still()  # it has not begun to be looked at
    pulse.beat = boot_seconds() - 1.5
    assert not pulse.stands_still()
    pulse.beat = boot_seconds() - 2.1
    assert pulse.stands_still()
    pulse.session_seconds = 12.0  # what was agreed counts, not what was asked for
    assert not pulse.stands_still()


def test_what_was_heard_later_never_counts_for_less() -> None:
    pulse = Pulse(8.0)
    pulse.hear(5.0)
    pulse.hear(3.0)
    assert pulse.heard == 5.0


def test_the_keys_reach_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[zookeeper_store.ZooKeeperSettings] = []
    monkeypatch.setattr(zookeeper_store, "ZooKeeperStore", lambda wanted, _: opened.append(wanted))
    flags = {
        "zookeeper.connect": "h:1/c", "zookeeper.session.timeout.ms": "7000",
        "zookeeper.max.in.flight.requests": "3", "zookeeper.set.acl": "true",
        "zookeeper.digest.credentials": "us:secret",
    }  # fmt: skip
    for more in ({}, {"zookeeper.connection.timeout.ms": "500"}):
        config = load(flags={**flags, **more})[0]
        real_world.open_zookeeper(config, "h:1/c", Any)  # type: ignore[arg-type]
    assert opened == [
        ("h:1/c", 7.0, 7.0, 3, True, "us:secret", True),
        ("h:1/c", 7.0, 0.5, 3, True, "us:secret", True),
    ]


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    return done.stdout + done.stderr


def test_a_broker_without_zookeeper_does_not_import_kazoo() -> None:
    code = "import sys, headrace.server.main; print([m for m in sys.modules if 'kazoo' in m])"
    assert python(code) == "[]\n"


def test_where_kazoo_is_missing_the_start_says_how_to_get_it() -> None:
    code = """
import sys
class Missing:
    def find_spec(self, name, *_):
        if name == "kazoo":
            raise ModuleNotFoundError(name="kazoo")
sys.meta_path.insert(0, Missing())
from headrace.config.broker import load
from headrace.server.real_world import open_zookeeper
open_zookeeper(load(flags={"zookeeper.connect": "h:1"})[0], "h:1", None)
"""
    (line,) = python(code).splitlines()[-1:]
    assert line.endswith(f"kazoo is not installed: {install_command('kazoo')}")


class Silent(zookeeper_store.ZooKeeperStore):
    """A store whose ZooKeeper answers when the test says so."""

    def __init__(self, events: SessionEvents) -> None:
        self._loop = asyncio.get_running_loop()
        self._settings = zookeeper_store.ZooKeeperSettings("h:1/c")
        self._events = events
        self._pulse = Pulse(18.0)
        self._pulse.hear(boot_seconds())
        self._unanswered = set()
        self._closed, self._connected, self._session = False, True, 7
        self._pulse.session, self._heard = 7, self._pulse.heard
        self._reminder = None
        handler = SimpleNamespace(session=7)
        self._client: Any = SimpleNamespace(handler=handler, has_given_up=False)
        self.set_again = 0
        self._watches: Any = SimpleNamespace(set_again=self._count_set_again)
        self._free = asyncio.Semaphore(1)

    def _count_set_again(self) -> None:
        self.set_again += 1


@pytest.mark.parametrize(("session", "word"), [(7, "continues"), (8, "registers again")])
def test_a_silent_zookeeper_is_logged_again_until_it_answers(
    session: int, word: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        store = Silent(SessionEvents())
        store._take_state(KazooState.SUSPENDED, 7)
        assert "session 0x7 expires unless it answers within 18 s" in caplog.text
        await asyncio.sleep(17)
        assert reminders() == 0
        await asyncio.sleep(2 + 3 * zookeeper_store.REMIND_SECONDS)
        assert reminders() == 4
        store._take_state(KazooState.CONNECTED, session)
        await asyncio.sleep(300)
        assert reminders() == 4, "it answers"
        assert word in caplog.records[-1].getMessage()
        store._take_state(KazooState.SUSPENDED, session)
        store._take_state(KazooState.CONNECTED, session)
        await asyncio.sleep(300)
        assert reminders() == 4, "it answered in time"

    def reminders() -> int:
        lines = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
        assert all("ZooKeeper (zookeeper.connect=h:1/c) has not answered for" in x for x in lines)
        return len(lines)

    with caplog.at_level("INFO"):
        SimLoop(1).play(story())


def test_answers_in_a_session_that_the_broker_does_not_know_yet_do_not_count() -> None:
    async def story() -> None:
        store = Silent(SessionEvents())
        heard = store.last_heard()
        store._pulse.session = 8  # kazoo's thread has begun another session
        store._pulse.hear(heard + 20)
        assert store.last_heard() == heard
        store._take_state(KazooState.SUSPENDED, 7)
        assert store.last_heard() == heard
        store._take_state(KazooState.CONNECTED, 8)
        assert store.last_heard() == heard + 20

    SimLoop(1).play(story())


class Raced(zookeeper_store.ZooKeeperStore):
    """A store in which another makes `/a` between our attempt and our look."""

    def __init__(self) -> None:
        self.there: set[str] = set()

    async def multi(self, operations: Sequence[Operation]) -> list[Node | str | None]:
        made: list[Node | str | None] = []
        for operation in operations:
            if operation.path.rpartition("/")[0] not in {"", *self.there}:
                self.there.add("/a")
                raise NoNode(operation.path)
            made.append(operation.path)
        return made

    async def get_all(self, paths: Sequence[str]) -> list[Node | None]:
        return [Node(b"", 0, 1, 0) if path in self.there else None for path in paths]


def test_a_node_is_made_below_what_another_makes_at_the_same_time() -> None:
    assert asyncio.run(Raced().create("/a/b", b"", parents=True)) == "/a/b"


@pytest.mark.parametrize("state", ["SUSPENDED", "LOST"])
def test_questions_without_an_answer_end_when_the_connection_is_lost(state: str) -> None:
    """Without another connection nobody answers them; those that were answered stay so."""

    async def story() -> None:
        events = SessionEvents()
        lost: list[str] = []
        events.lost = lambda: lost.append("lost")
        store: Any = zookeeper_store.ZooKeeperStore.__new__(zookeeper_store.ZooKeeperStore)
        store._closed, store._connected, store._session = False, True, 7
        store._pulse, store._events = SimpleNamespace(session_seconds=6.0), events
        store._client = SimpleNamespace(has_given_up=False)
        store._reminder = None
        store._loop = loop = asyncio.get_running_loop()
        answered, waiting, other = (loop.create_future() for _ in range(3))
        answered.set_result("an answer")
        store._unanswered = {answered, waiting, other}
        store._take_state(state, 7)
        for question in (waiting, other):
            with pytest.raises(SessionLost, match="ZooKeeper does not answer"):
                await question
        assert (await answered, lost) == ("an answer", ["lost"])
        store._take_state(state, 7)
        assert lost == ["lost"], "it is lost once"

    asyncio.run(story())


@pytest.mark.parametrize("session", [7, 8], ids=["same session", "another session"])
def test_watches_are_set_again_after_each_reconnection(session: int) -> None:
    async def story() -> None:
        store = Silent(SessionEvents())
        for count in (1, 2):
            store._take_state(KazooState.SUSPENDED, 7)
            store._take_state(KazooState.CONNECTED, session)
            assert store.set_again == count

    SimLoop(1).play(story())


@pytest.mark.parametrize("state", [KazooState.SUSPENDED, KazooState.LOST])
def test_nothing_is_sent_to_zookeeper_while_it_does_not_answer(state: str) -> None:
    async def story() -> None:
        store = Silent(SessionEvents())
        sent: list[str] = []

        def get(path: str) -> SimpleNamespace:
            sent.append(path)
            return SimpleNamespace(rawlink=lambda _: None)

        store._client.get_async = get
        store._take_state(state, 7)
        with pytest.raises(SessionLost, match="ZooKeeper does not answer: /a"):
            await asyncio.wait_for(store.get("/a"), 1)
        assert sent == []

    SimLoop(1).play(story())
