"""The fate of a session at a real ZooKeeper that is paused, killed, and started again."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any
from uuid import uuid4

import pytest
from kazoo.client import KazooClient

from headrace.model.errors import ConfigError
from headrace.ports.store import NoNode, SessionEvents, SessionLost, StoreError
from headrace.posix.clock import boot_seconds
from headrace.posix.zookeeper.connection import STILL_SHARE
from headrace.posix.zookeeper.zookeeper_store import ZooKeeperSettings, ZooKeeperStore
from tests.support.processes.process import free_port
from tests.support.zookeeper import TICK_MS, ZooKeeper

SESSION_SECONDS = 4.0
WAIT_SECONDS_MAX = 40.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    """A server that is paused and killed; each test leaves it serving."""
    with ZooKeeper(tmp_path_factory.mktemp("fate")) as found:
        yield found


class Heard(SessionEvents):
    """The session's fate, in words."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self.threads: set[int] = set()
        for word in ("lost", "expired", "reconnected"):
            setattr(self, word, self._noter(word))

    def _noter(self, word: str) -> Callable[[], None]:
        def note() -> None:
            self.words.append(word)
            self.threads.add(threading.get_ident())

        return note


def opened(
    server: ZooKeeper, events: SessionEvents, chroot: str = "", **more: Any
) -> ZooKeeperStore:
    settings = ZooKeeperSettings(server.hosts + chroot, SESSION_SECONDS, **more)
    return ZooKeeperStore(settings, events)


def play(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


async def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not holds():
        assert time.monotonic() < deadline, "it never is"
        await asyncio.sleep(0.01)


def end_session(store: ZooKeeperStore) -> None:
    """End the session behind its owner's back, as an expiry does; blocks."""
    client = KazooClient(store._settings.connect, client_id=store._client.client_id)
    client.start()
    client.stop()
    client.close()


def test_what_was_sent_before_a_pause_and_answered_after_it_is_heard_at_its_sending(
    server: ZooKeeper,
) -> None:
    async def story() -> None:
        store = opened(server, SessionEvents())
        server.pause()
        asked = boot_seconds()
        asking = asyncio.ensure_future(store.set("/", b""))
        await asyncio.sleep(0.7)
        resumed = boot_seconds()
        server.resume()
        await asking
        assert asked <= store.last_heard() < resumed
        await store.close()

    play(story())


def test_the_last_heard_grows_with_nothing_asked_and_stands_still_while_zookeeper_does(
    server: ZooKeeper,
) -> None:
    async def story() -> None:
        heard = Heard()
        store = opened(server, heard)
        at_first = store.last_heard()
        await until(lambda: store.last_heard() > at_first)
        server.pause()
        paused = boot_seconds()
        await until(lambda: heard.words == ["lost"])
        assert store.last_heard() <= paused
        assert boot_seconds() < paused + SESSION_SECONDS  # who leads is told before it may be over
        with pytest.raises(SessionLost):
            await store.get("/")
        server.resume()
        await until(lambda: len(heard.words) == 2)
        assert heard.words[1] in ("reconnected", "expired")
        assert heard.threads == {threading.get_ident()}
        await store.close()

    play(story())


def test_a_question_that_kazoo_keeps_for_the_next_connection_is_answered_when_the_loss_is_heard_of(
    server: ZooKeeper,
) -> None:
    """The event loop is late: kazoo has lost the connection, and the store does not know it yet."""

    async def story() -> None:
        store = opened(server, SessionEvents(), in_flight_max=1)
        asked = [asyncio.ensure_future(store.set("/", b"")) for _ in range(3)]
        server.kill()
        while store._client.connected:
            time.sleep(0.01)  # noqa: ASYNC251 - the loop stands still
        done, _ = await asyncio.wait(asked, timeout=WAIT_SECONDS_MAX / 4)
        for asking in asked:
            asking.cancel()
        assert [type(asking.exception()) for asking in done] == [SessionLost] * 3
        await store.close()

    try:
        play(story())
    finally:
        server.start()


def test_a_session_ends_when_its_event_loop_stands_still_and_never_before_its_lease(
    server: ZooKeeper,
) -> None:
    go_on = threading.Event()
    stores: list[ZooKeeperStore] = []
    standing = asyncio.Event()

    async def mind(told: Callable[[], object]) -> None:
        store = opened(server, SessionEvents())
        await store.create("/mind", b"", ephemeral=True)
        stores.append(store)
        await asyncio.sleep(SESSION_SECONDS * 1.5)  # pings keep it
        told()
        go_on.wait(WAIT_SECONDS_MAX)
        await store.close()

    async def story() -> None:
        loop = asyncio.get_running_loop()
        thread = threading.Thread(
            target=lambda: asyncio.run(mind(lambda: loop.call_soon_threadsafe(standing.set)))
        )
        watcher = opened(server, SessionEvents())
        thread.start()
        try:
            await asyncio.wait_for(standing.wait(), WAIT_SECONDS_MAX)
            stood = boot_seconds()
            await watcher.get("/mind")
            gone = asyncio.Event()
            watcher.watch("/mind", lambda _: gone.set())
            await asyncio.wait_for(gone.wait(), WAIT_SECONDS_MAX)
            ended = boot_seconds()
        finally:
            go_on.set()
            thread.join()
        (store,) = stores
        assert store.session_seconds == SESSION_SECONDS
        assert ended >= store.last_heard() + SESSION_SECONDS
        assert store.last_heard() < stood + SESSION_SECONDS * (STILL_SHARE + 0.1)
        assert ended < stood + SESSION_SECONDS * (1 + STILL_SHARE) + 5 * TICK_MS / 1000
        await watcher.close()

    # Not the session of its new life: what is asserted was read while it stood still.
    play(story())


def test_an_expired_session_is_told_once_and_another_begins_with_the_same_watches(
    server: ZooKeeper,
) -> None:
    async def story() -> None:
        heard = Heard()
        store = opened(server, heard)
        told: list[str] = []
        store.watch("/expiring", told.append)
        await store.create("/expiring", b"", ephemeral=True)
        former, count = store.session, len(told)
        assert (await store.get("/expiring")).owner == former
        await asyncio.to_thread(end_session, store)
        await until(lambda: heard.words == ["lost", "expired"])
        assert store.session != former
        assert len(told) > count  # told to look again
        with pytest.raises(NoNode):
            await store.get("/expiring")
        count = len(told)
        await store.create("/expiring", b"", ephemeral=True)
        assert (await store.get("/expiring")).owner == store.session
        assert len(told) == count + 1
        await store.close()

    play(story())


def test_what_was_asked_in_a_session_that_is_over_is_not_done_in_the_next(
    server: ZooKeeper,
) -> None:
    async def story() -> None:
        heard = Heard()
        store = opened(server, heard)
        end_session(store)
        former = store.session
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while (store._client.client_id or (former,))[0] == former:
            assert time.monotonic() < deadline
            time.sleep(0.01)  # noqa: ASYNC251 - the loop stands still meanwhile: it knows of nothing
        with pytest.raises(SessionLost):
            await store.create("/late", b"", ephemeral=True)
        await until(lambda: heard.words == ["lost", "expired"])
        with pytest.raises(NoNode):
            await store.get("/late")
        await store.close()

    play(story())


def test_a_restarted_zookeeper_is_found_again_and_watchers_are_told_to_look(
    server: ZooKeeper,
) -> None:
    async def story() -> None:
        heard = Heard()
        store = opened(server, heard)
        told: list[str] = []
        await store.create("/outlives", b"", ephemeral=True)
        store.watch("/outlives", told.append)
        await store.get("/")
        (process,) = server.servers
        await asyncio.to_thread(process.kill)
        await until(lambda: heard.words == ["lost"])
        assert not told
        process.start(server.servers)
        await asyncio.to_thread(process.wait)
        await until(lambda: len(heard.words) == 2)
        assert heard.words == ["lost", "reconnected"]
        assert told == ["/outlives"]
        assert (await store.get("/outlives")).owner == store.session
        await store.set("/outlives", b"again")
        assert told == ["/outlives"] * 2
        await store.close()

    play(story())


def test_a_server_that_is_cut_off_from_its_ensemble_does_not_count_as_zookeeper(
    ensemble: ZooKeeper,
) -> None:
    """It answers reads for some ticks more: the others may have ended the session by then."""

    async def story() -> None:
        leader = ensemble.leader()
        follower = next(server for server in ensemble.servers if server is not leader)
        others = [server for server in ensemble.servers if server is not follower]
        heard = Heard()
        settings = ZooKeeperSettings(follower.address, SESSION_SECONDS)
        store = ZooKeeperStore(settings, heard)
        at_first = store.last_heard()
        await until(lambda: store.last_heard() > at_first)
        for server in others:
            server.pause()
        try:
            paused = boot_seconds()
            answered = await store.get("/")  # by the follower alone
            assert answered.owner == 0
            await asyncio.sleep(2.0)
            assert not heard.words
            assert store.last_heard() <= paused
        finally:
            for server in others:
                server.resume()
        await until(lambda: store.last_heard() > paused)
        await store.close()

    play(story())


def test_the_loss_of_one_server_of_three_ends_no_session(ensemble: ZooKeeper) -> None:
    async def story() -> None:
        store = opened(ensemble, SessionEvents())
        await store.create("/three", b"", ephemeral=True)
        leader = ensemble.leader()
        await asyncio.to_thread(leader.kill)
        try:
            deadline = time.monotonic() + WAIT_SECONDS_MAX
            while True:
                try:
                    await store.set("/three", b"new")
                    break
                except SessionLost:
                    assert time.monotonic() < deadline
                    await asyncio.sleep(0.05)
            assert (await store.get("/three")).owner == store.session
        finally:
            leader.start(ensemble.servers)
            await asyncio.to_thread(leader.wait)
            await store.close()

    play(story())


def test_without_a_zookeeper_the_start_ends_in_one_line() -> None:
    async def story() -> None:
        settings = ZooKeeperSettings(f"127.0.0.1:{free_port()}", 4.0, 0.5)
        with pytest.raises(ConfigError) as error:
            ZooKeeperStore(settings, SessionEvents())
        assert "zookeeper.connect" in str(error.value)
        assert "\n" not in str(error.value)

    play(story())


def test_only_who_made_a_node_may_change_it_where_access_is_set(server: ZooKeeper) -> None:
    async def story() -> None:
        chroot = f"/acl-{uuid4().hex}"
        secured = opened(server, SessionEvents(), chroot, set_acl=True, credentials="us:secret")
        await secured.create("/brokers/ids", b"", parents=True)
        await secured.create("/config/users/u", b"scram", parents=True)
        await secured.create("/consumers", b"")
        stranger = opened(server, SessionEvents(), chroot)
        assert (await stranger.get("/brokers/ids")).value == b""
        with pytest.raises(StoreError, match=r"zookeeper\.digest\.credentials"):
            await stranger.set("/brokers/ids", b"mine")
        with pytest.raises(StoreError, match="no access"):
            await stranger.get("/config/users/u")
        await stranger.create("/consumers/anybody", b"")
        await secured.set("/brokers/ids", b"ours")
        await stranger.close()
        await secured.close()

    play(story())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_where_kazoos_thread_has_died_it_is_begun_anew(
    server: ZooKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        heard = Heard()
        store = opened(server, heard)
        await store.create("/revived", b"", ephemeral=True)
        connection: Any = store._client._connection

        def break_once(timeout: float) -> None:
            del connection._read_header
            raise ValueError("a bug")

        connection._read_header = break_once
        with pytest.raises(SessionLost):
            await store.get("/")
        await until(lambda: heard.words == ["lost", "expired"])
        assert (await store.get("/")).value == b""
        at_first = store.last_heard()
        await until(lambda: store.last_heard() > at_first)
        await store.close()

    play(story())
    assert "retrying every" in caplog.text
