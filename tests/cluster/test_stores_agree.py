"""The same operations on the simulated store, on SQLite and on a real ZooKeeper: the same outcome.

Compared are results, versions, owners, errors, the order of creations, and who is told of changes.
Two sessions act on the simulated store and on ZooKeeper; SQLite, which has one, follows where only
the first acts.
"""

import asyncio
import tempfile
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from headrace.ports.store import (
    Check,
    Create,
    Delete,
    Node,
    Operation,
    SessionEvents,
    Set,
    Store,
    StoreError,
)
from headrace.posix.store.embedded_store import EmbeddedStore
from headrace.posix.zookeeper.zookeeper_store import ZooKeeperSettings, ZooKeeperStore
from headrace.testing.sim import ensemble as simulated
from tests.support.zookeeper import ZooKeeper

SESSION_SECONDS = 20.0
END_SECONDS = 2.0
"""A store hears within that its session is over, or holds it again."""
SETTLE_SECONDS = 0.006
"""Longer than the simulated store takes to tell watchers, made quick."""

names = st.sampled_from("ab")  # few: operations are to meet
paths = st.lists(names, min_size=1, max_size=2).map(lambda parts: "/" + "/".join(parts))
values = st.sampled_from([b"", b"v", b"other"])
versions = st.sampled_from([-1, -1, 0, 1, 2])
operations: st.SearchStrategy[Operation] = st.one_of(
    st.builds(Create, paths, values, st.booleans(), st.booleans()),
    st.builds(Set, paths, values, versions),
    st.builds(Delete, paths, versions),
    st.builds(Check, paths, versions),
)
sessions = st.integers(0, 1)
Ask = Callable[[Store], Coroutine[Any, Any, Any]]


class Fate(SessionEvents):
    """The words that a session heard of its fate."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self.lost = lambda: self.words.append("lost")
        self.expired = lambda: self.words.append("expired")
        self.reconnected = lambda: self.words.append("reconnected")


class Side:
    """One implementation, with the sessions that act on it."""

    def __init__(self, name: str, stores: list[Store], fates: list[Fate]) -> None:
        self.name = name
        self.stores = stores
        self.fates = fates
        self.told: list[list[str]] = [[] for _ in stores]
        self.cancels: dict[tuple[int, str], Callable[[], None]] = {}

    def plain(self, result: object) -> object:
        """A result in words that all sides share: the owner is a session's index."""
        if isinstance(result, Node):
            owners = [store.session for store in self.stores]
            owner = owners.index(result.owner) if result.owner else None
            return (result.value, result.version, owner)
        if isinstance(result, list):
            return [self.plain(part) for part in result]
        return result

    async def outcome(self, session: int, ask: Ask) -> object:
        try:
            return self.plain(await ask(self.stores[session]))
        except StoreError as error:
            return type(error).__name__

    async def tree(self) -> dict[str, tuple[object, int]]:
        """Every node, with the id of its creation."""
        store, found, waiting = self.stores[0], {}, ["/"]
        while waiting:
            path = waiting.pop()
            node = await store.get(path)
            if path != "/":
                found[path] = (self.plain(node), node.created)
            waiting += [f"{path.rstrip('/')}/{name}" for name in await store.children(path)]
        return found

    def watch(self, session: int, path: str) -> None:
        told = self.told[session]
        if (session, path) not in self.cancels:
            store = self.stores[session]
            self.cancels[session, path] = store.watch(path, told.append)

    def unwatch(self, session: int, path: str) -> None:
        cancel = self.cancels.pop((session, path), None)
        if cancel is not None:
            cancel()

    async def heard(self) -> list[set[str]]:
        """What each session was told of since the last look."""
        for store in self.stores:
            await store.get("/")
        await asyncio.sleep(SETTLE_SECONDS)
        found = [set(told) for told in self.told]
        for told in self.told:
            told.clear()
        return found


def creation_order(tree: dict[str, tuple[object, int]]) -> list[set[str]]:
    """Paths by the time of their creation; those of one change together."""
    ids = sorted({created for _, created in tree.values()})
    return [{path for path, (_, created) in tree.items() if created == at} for at in ids]


class Agreement(RuleBasedStateMachine):
    """Does everything on all sides."""

    servers = ""

    @initialize()
    def open(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.place = tempfile.TemporaryDirectory()
        self.sqlite_follows = True
        self.run(self._open())

    async def _open(self) -> None:
        fake = simulated.Ensemble(1)
        fates = [Fate(), Fate()]
        self.fake = Side("simulated", [fake.session("", fate) for fate in fates], fates)
        chroot = f"{self.servers}/agree-{uuid4().hex}"
        fates = [Fate(), Fate()]
        wanted = ZooKeeperSettings(chroot, SESSION_SECONDS)
        self.real = Side("ZooKeeper", [ZooKeeperStore(wanted, fate) for fate in fates], fates)
        path = str(Path(self.place.name) / "store.db")
        self.sqlite = Side("SQLite", [EmbeddedStore(path)], [Fate()])
        self.ensemble = fake

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    def teardown(self) -> None:
        if not hasattr(self, "real"):
            return
        for side in (self.fake, self.sqlite, self.real):
            for store in side.stores:
                self.run(store.close())
        self.loop.close()
        self.place.cleanup()

    def sides(self, session: int) -> list[Side]:
        """Those on which a session acts; SQLite's one is the first."""
        self.sqlite_follows = self.sqlite_follows and session == 0
        return [self.fake, self.real] + ([self.sqlite] if self.sqlite_follows else [])

    def do(self, session: int, ask: Ask) -> None:
        async def on_all() -> None:
            sides = self.sides(session)
            outcomes = {side.name: await side.outcome(session, ask) for side in sides}
            assert len({repr(outcome) for outcome in outcomes.values()}) == 1, outcomes
            await self.compare(sides)

        self.run(on_all())

    async def compare(self, sides: list[Side]) -> None:
        trees = [await side.tree() for side in sides]
        for tree in trees[1:]:
            assert {path: node for path, (node, _) in tree.items()} == {
                path: node for path, (node, _) in trees[0].items()
            }
            assert creation_order(tree) == creation_order(trees[0])
        heard = [await side.heard() for side in sides]
        assert heard[0] == heard[1]
        for of_one_session in heard[2:]:
            assert of_one_session == heard[0][:1]

    @rule(session=sessions, path=paths, value=values, ephemeral=st.booleans(),
          sequential=st.booleans(), parents=st.booleans())  # fmt: skip
    def create(
        self, session: int, path: str, value: bytes, ephemeral: bool, sequential: bool,
        parents: bool,
    ) -> None:  # fmt: skip
        self.do(session, lambda store: store.create(
            path, value, ephemeral=ephemeral, sequential=sequential, parents=parents
        ))  # fmt: skip

    @rule(session=sessions, path=paths, value=values, version=versions)
    def set(self, session: int, path: str, value: bytes, version: int) -> None:
        self.do(session, lambda store: store.set(path, value, version))

    @rule(session=sessions, path=paths, version=versions)
    def delete(self, session: int, path: str, version: int) -> None:
        self.do(session, lambda store: store.delete(path, version))

    @rule(session=sessions, wanted=st.lists(operations, min_size=1, max_size=4))
    def multi(self, session: int, wanted: list[Operation]) -> None:
        self.do(session, lambda store: store.multi(wanted))

    @rule(session=sessions, wanted=st.lists(paths, max_size=3))
    def get_all(self, session: int, wanted: list[str]) -> None:
        self.do(session, lambda store: store.get_all(wanted))

    @rule(session=sessions, path=paths | st.just("/"))
    def children(self, session: int, path: str) -> None:
        self.do(session, lambda store: store.children(path))

    @rule(session=sessions, path=paths | st.just("/"))
    def watch(self, session: int, path: str) -> None:
        for side in self.sides(0) if session == 0 else [self.fake, self.real]:
            side.watch(session, path)
        self.run(self.compare([self.fake, self.real]))

    @rule(session=sessions, path=paths)
    def unwatch(self, session: int, path: str) -> None:
        for side in self.sides(0) if session == 0 else [self.fake, self.real]:
            side.unwatch(session, path)

    @precondition(lambda self: hasattr(self, "real"))
    @rule(session=sessions)
    def session_ends(self, session: int) -> None:
        self.sides(1)
        self.run(self._expire(session))

    async def _expire(self, session: int) -> None:
        fake, real = self.fake.stores[session], self.real.stores[session]
        assert isinstance(fake, simulated.EnsembleSession)
        assert isinstance(real, ZooKeeperStore)
        self.ensemble.expire(fake)
        fates = [side.fates[session].words for side in (self.fake, self.real)]
        client_id = real._client.client_id
        while fates[1][-1:] != ["expired"]:
            # Its owner may have connected again before it was ended: then it goes on.
            await asyncio.to_thread(end_session, real, client_id)
            with suppress(TimeoutError):
                async with asyncio.timeout(END_SECONDS):
                    while fates[1][-1:] != ["expired"]:  # noqa: ASYNC110 - told by a callback
                        await asyncio.sleep(0.005)
        assert fates[0] == fates[1][-2:] == ["lost", "expired"]
        for words in fates:
            words.clear()
        await self.compare([self.fake, self.real])


def end_session(store: ZooKeeperStore, client_id: tuple[int, bytes]) -> None:
    """End a session behind its owner's back, as an expiry does; blocks."""
    client = KazooClient(store._settings.connect, client_id=client_id)
    with suppress(KazooException):  # its owner holds it again
        client.start()
    client.stop()
    client.close()


def test_the_simulated_store_and_sqlite_do_as_zookeeper_does(
    zookeeper: ZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Agreement, "servers", zookeeper.hosts)
    monkeypatch.setattr(simulated, "WAY_SECONDS", (0.0, 0.0002))
    run_state_machine_as_test(
        Agreement,
        settings=settings(
            max_examples=40, stateful_step_count=25,
            suppress_health_check=list(HealthCheck),
        ),
    )  # fmt: skip
