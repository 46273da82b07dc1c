"""The embedded store: the contract of all stores, and what one file must bear."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from headrace.cluster.embedded.store import FILE_NAME, EmbeddedStore
from headrace.cluster.embedded.tree import Tree
from headrace.model.errors import ConfigError
from headrace.world.store import Create, NoNode, Store
from tests.support.store_contract import StoreContract


class TestEmbeddedStore(StoreContract):
    def open(self, place: Path) -> Store:
        return EmbeddedStore(str(place / FILE_NAME))


def test_a_clean_close_leaves_one_plain_file(tmp_path: Path) -> None:
    async def story() -> None:
        store = EmbeddedStore(str(tmp_path / FILE_NAME))
        await store.create("/a/b", b"c", parents=True)
        await store.close()

    asyncio.run(story())
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


def test_ephemeral_nodes_of_a_run_that_was_killed_are_gone_at_the_next_open(
    tmp_path: Path,
) -> None:
    path = str(tmp_path / FILE_NAME)
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
    path = str(tmp_path / FILE_NAME)
    tree = Tree(path)
    try:
        with pytest.raises(ConfigError, match="locked"):
            Tree(path)
    finally:
        tree.close()


def test_a_file_that_is_no_store_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    path.write_bytes(b"this is not a database, whatever its name says" * 100)
    with pytest.raises(ConfigError, match=FILE_NAME):
        Tree(str(path))


def test_a_store_of_a_newer_layout_is_refused(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version=99")
    database.close()
    with pytest.raises(ConfigError, match="layout 99"):
        Tree(str(path))


def test_a_caller_that_gives_up_does_not_undo_the_change(tmp_path: Path) -> None:
    async def story() -> None:
        store = EmbeddedStore(str(tmp_path / FILE_NAME))
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
