"""The embedded store: the contract of all stores, and what one file must bear."""

import asyncio
import random
import sqlite3
import threading
from pathlib import Path

import pytest

from headrace.log import file_names
from headrace.model.errors import ConfigError
from headrace.ports.store import Create, Delete, NodeExists, NoNode, Set, Store
from headrace.posix.store.embedded_store import EmbeddedStore, StoreFile
from headrace.posix.store.sqlite_tree import Tree
from tests.support.queues.store_contract import StoreContract


class TestEmbeddedStore(StoreContract):
    def open(self, place: Path) -> Store:
        return EmbeddedStore(str(place / file_names.METADATA))


class TestSessionOfSeveral(StoreContract):
    def open(self, place: Path) -> Store:
        return OnlySession(StoreFile(str(place / file_names.METADATA)))


class OnlySession(EmbeddedStore):
    """A session that closes the file though others could have some."""

    def __init__(self, file: StoreFile) -> None:
        super().__init__(file)
        self.file: StoreFile | None = file

    async def close(self) -> None:
        await super().close()
        file, self.file = self.file, None
        if file is not None:
            await file.close()


def test_several_sessions_of_one_file_see_each_others_changes_and_the_others_end(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        file = StoreFile(str(tmp_path / file_names.METADATA))
        one, other = EmbeddedStore(file), EmbeddedStore(file)
        assert one.shared
        assert other.shared
        assert one.session != other.session
        told: list[str] = []
        other.watch("/a", told.append)
        await one.create("/a", b"", ephemeral=True)
        await other.create("/b", b"", ephemeral=True)
        assert (await other.get("/a")).owner == one.session
        assert (await one.get("/b")).owner == other.session
        assert told == ["/a"]
        await one.close()
        assert told == ["/a", "/a"]
        assert await other.children("/") == ["b"], "only its own are gone"
        await other.close()
        third = EmbeddedStore(file)
        assert third.session > other.session
        assert await third.children("/") == []
        await third.close()
        await file.close()

    asyncio.run(story())


def test_a_store_of_ones_own_is_shared_with_nobody(tmp_path: Path) -> None:
    async def story() -> None:
        store = EmbeddedStore(str(tmp_path / file_names.METADATA))
        assert not store.shared
        await store.close()

    asyncio.run(story())


def test_a_clean_close_leaves_one_plain_file(tmp_path: Path) -> None:
    async def story() -> None:
        store = EmbeddedStore(str(tmp_path / file_names.METADATA))
        await store.create("/a/b", b"c", parents=True)
        await store.close()

    asyncio.run(story())
    assert [path.name for path in tmp_path.iterdir()] == [file_names.METADATA]


def test_a_change_that_took_long_is_said_with_the_databases_part_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        store = EmbeddedStore(str(tmp_path / file_names.METADATA))
        await store.create("/quick", b"")
        assert not caplog.records
        monkeypatch.setattr("headrace.posix.store.embedded_store.SLOW_SECONDS", 0.0)
        await store.create("/slow", b"")
        assert "in the database" in caplog.text
        await store.close()

    asyncio.run(story())


def test_ephemeral_nodes_of_a_run_that_was_killed_are_gone_at_the_next_open(
    tmp_path: Path,
) -> None:
    path = str(tmp_path / file_names.METADATA)
    killed = Tree(path)
    killed.multi([Create("/keep", b""), Create("/go", b"", ephemeral=True)])
    killed.close()
    following = Tree(path)
    try:
        assert following.children("/") == ["keep"]
        assert following.session > killed.session
    finally:
        following.close()


def test_a_second_process_is_refused_while_one_has_the_store_open(tmp_path: Path) -> None:
    path = str(tmp_path / file_names.METADATA)
    tree = Tree(path)
    try:
        with pytest.raises(ConfigError, match="locked"):
            Tree(path)
    finally:
        tree.close()


def test_a_file_that_is_no_store_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / file_names.METADATA
    path.write_bytes(b"this is not a database, whatever its name says" * 100)
    with pytest.raises(ConfigError, match=file_names.METADATA):
        Tree(str(path))


def test_a_store_of_a_newer_layout_is_refused(tmp_path: Path) -> None:
    path = tmp_path / file_names.METADATA
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version=99")
    database.close()
    with pytest.raises(ConfigError, match="layout 99"):
        Tree(str(path))


def test_a_caller_that_gives_up_does_not_undo_the_change(tmp_path: Path) -> None:
    async def story() -> None:
        store = EmbeddedStore(str(tmp_path / file_names.METADATA))
        heard: list[str] = []
        store.watch("/a", heard.append)
        task = asyncio.ensure_future(store.create("/a", b""))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await store.get("/")  # behind the change on the store's one thread
        await asyncio.sleep(0)
        assert heard == ["/a"]
        await store.delete("/a")
        with pytest.raises(NoNode):
            await store.get("/a")
        await store.close()

    asyncio.run(story())


def whole_tree(tree: Tree) -> dict[str, tuple[bytes, int]]:
    """Every node's value and version, by path."""
    found = {}
    waiting = ["/"]
    while waiting:
        path = waiting.pop()
        node = tree.get(path)
        found[path] = (node.value, node.version)
        waiting += [f"{path.rstrip('/')}/{name}" for name in tree.children(path)]
    return found


def test_a_flipped_bit_is_found_at_the_opening_or_changes_nothing(tmp_path: Path) -> None:
    """SQLite itself would follow a topic's settings that read otherwise than they were written."""
    path = tmp_path / file_names.METADATA
    tree = Tree(str(path))
    for number in range(30):
        name = f"/config/topics/topic-{number}"
        tree.create_with_parents(Create(name, b'{"retention.ms": "%d"}' % (number * 86_400_000)))
    tree.multi([Set("/config/topics/topic-3", b"changed"), Delete("/config/topics/topic-4")])
    wanted = whole_tree(tree)
    tree.close()
    content = path.read_bytes()
    draw = random.Random(1)
    places = [draw.randrange(len(content)) for _ in range(60)]
    start = content.find(b"retention.ms")
    found = 0
    for at in [*places, *range(start, start + 40)]:
        damaged = bytearray(content)
        damaged[at] ^= 1 << draw.randrange(8)
        path.write_bytes(damaged)
        try:
            tree = Tree(str(path))
        except ConfigError:
            found += 1
            continue
        assert whole_tree(tree) == wanted, at
        tree.close()
    assert found >= 40


def test_a_store_without_a_digest_is_given_one(tmp_path: Path) -> None:
    path = str(tmp_path / file_names.METADATA)
    tree = Tree(path)
    tree.multi([Create("/a", b"b")])
    tree.close()
    with sqlite3.connect(path) as database:
        database.execute("DELETE FROM counter WHERE name = 'digest'")
        database.execute("PRAGMA user_version=1")
    database.close()
    for _ in range(2):
        tree = Tree(path)
        assert tree.get("/a").value == b"b"
        tree.multi([Set("/a", b"b")])
        tree.close()


def test_a_store_that_is_closed_has_no_thread(tmp_path: Path) -> None:
    before = set(threading.enumerate())

    async def story() -> set[threading.Thread]:
        store = EmbeddedStore(str(tmp_path / file_names.METADATA))
        await store.create("/a", b"")
        its_own = set(threading.enumerate()) - before
        await store.close()
        for thread in its_own:
            await asyncio.to_thread(thread.join, 30)
            assert not thread.is_alive()
        return its_own

    assert len(asyncio.run(story())) == 1


def test_children_that_are_made_in_one_change_are_numbered_one_after_the_other(
    tmp_path: Path,
) -> None:
    tree = Tree(str(tmp_path / file_names.METADATA))
    tree.multi([Create("/p", b"")])
    made, _ = tree.multi([Create("/p/x", b""), *[Create("/p/n_", b"", sequential=True)] * 2])
    assert made == ["/p/x", "/p/n_0000000001", "/p/n_0000000002"]
    refused = [Create("/p/n_", b"", sequential=True), Create("/p/x", b"")]
    with pytest.raises(NodeExists):
        tree.multi(refused)
    made, _ = tree.multi([Create("/p/n_", b"", sequential=True)])
    assert made == ["/p/n_0000000003"], "what was refused counts for nothing"
    tree.close()
    Tree(str(tmp_path / file_names.METADATA)).close()


def test_a_parent_that_goes_and_comes_back_in_one_change_numbers_its_children_anew(
    tmp_path: Path,
) -> None:
    tree = Tree(str(tmp_path / file_names.METADATA))
    tree.multi([Create("/p", b"")])
    tree.multi([Create("/p/x", b""), Delete("/p/x"), Delete("/p"), Create("/p", b"")])
    made, _ = tree.multi([Create("/p/n_", b"", sequential=True)])
    assert made == ["/p/n_0000000000"]
    with pytest.raises(NoNode):
        tree.multi([Create("/p/y", b""), Delete("/p/y"), Delete(str(made[0])), Delete("/p"),
                    Create("/p/z", b"")])  # fmt: skip
    tree.close()
