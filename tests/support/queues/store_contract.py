"""What every metadata store must do: run by each implementation's test class.

A subclass gives `open`: an open store, the same content each time, a new session each time.
"""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from headrace.ports.store import (
    BadVersion,
    Check,
    Create,
    Delete,
    NodeExists,
    NoNode,
    NotEmpty,
    SessionLost,
    Set,
    Store,
)

Story = Callable[[Store], Coroutine[Any, Any, None]]


class StoreContract:
    """The contract, as tests."""

    def open(self, place: Path) -> Store:
        """An open store that keeps its content in `place`."""
        raise NotImplementedError

    def tell(self, place: Path, *stories: Story) -> None:
        """Run each story in a session of its own, one after the other."""

        async def run() -> None:
            for story in stories:
                store = self.open(place)
                try:
                    await story(store)
                finally:
                    await store.close()

        asyncio.run(run())

    def test_a_node_holds_what_was_written_and_counts_its_writes(self, tmp_path: Path) -> None:
        async def story(store: Store) -> None:
            assert await store.create("/a", b"one") == "/a"
            node = await store.get("/a")
            assert (node.value, node.version, node.owner) == (b"one", 0, 0)
            changed = await store.set("/a", b"two", 0)
            assert (changed.value, changed.version, changed.created) == (b"two", 1, node.created)
            assert await store.get("/a") == changed

        self.tell(tmp_path, story)

    def test_many_nodes_are_read_at_once_in_the_order_asked(self, tmp_path: Path) -> None:
        async def story(store: Store) -> None:
            await store.create("/a", b"1")
            await store.create("/b", b"2")
            found = await store.get_all(["/b", "/no", "/a"])
            assert [node and node.value for node in found] == [b"2", None, b"1"]
            assert await store.get_all([]) == []

        self.tell(tmp_path, story)

    def test_a_write_at_another_version_is_refused(self, tmp_path: Path) -> None:
        async def story(store: Store) -> None:
            await store.create("/a", b"")
            await store.set("/a", b"x")
            with pytest.raises(BadVersion):
                await store.set("/a", b"y", 0)
            with pytest.raises(BadVersion):
                await store.delete("/a", 0)
            assert (await store.get("/a")).value == b"x"
            await store.delete("/a", 1)

        self.tell(tmp_path, story)

    def test_what_is_missing_is_said(self, tmp_path: Path) -> None:
        async def story(store: Store) -> None:
            for call in (
                store.get("/no"),
                store.children("/no"),
                store.set("/no", b""),
                store.delete("/no"),
                store.create("/no/child", b""),
            ):
                with pytest.raises(NoNode):
                    await call

        self.tell(tmp_path, story)

    def test_what_exists_is_not_created_again(self, tmp_path: Path) -> None:
        async def story(store: Store) -> None:
            await store.create("/a", b"first")
            with pytest.raises(NodeExists):
                await store.create("/a", b"second")
            assert (await store.get("/a")).value == b"first"

        self.tell(tmp_path, story)

    def test_children_are_sorted_and_keep_their_parent(self, tmp_path: Path) -> None:
        async def story(store: Store) -> None:
            await store.create("/p/b", b"", parents=True)
            await store.create("/p/a", b"")
            await store.create("/p/a/deep", b"")
            await store.create("/pa", b"")
            assert await store.children("/p") == ["a", "b"]
            assert await store.children("/p/b") == []
            with pytest.raises(NotEmpty):
                await store.delete("/p")

        self.tell(tmp_path, story)

    def test_sequential_names_count_on_after_deletions(self, tmp_path: Path) -> None:
        async def story(store: Store) -> None:
            await store.create("/q", b"")
            first = await store.create("/q/n_", b"", sequential=True)
            await store.delete(first)
            second = await store.create("/q/n_", b"", sequential=True)
            assert (first, second) == ("/q/n_0000000000", "/q/n_0000000001")

        self.tell(tmp_path, story)

    def test_the_creation_id_grows_through_the_whole_store(self, tmp_path: Path) -> None:
        async def story(store: Store) -> None:
            await store.create("/a", b"")
            await store.create("/b", b"")
            first, second = await store.get("/a"), await store.get("/b")
            assert 0 < first.created < second.created

        self.tell(tmp_path, story)

    def test_ephemeral_nodes_end_with_their_session_and_persistent_ones_stay(
        self, tmp_path: Path
    ) -> None:
        async def first(store: Store) -> None:
            await store.create("/ids", b"")
            await store.create("/ids/1", b"me", ephemeral=True)
            assert (await store.get("/ids/1")).owner != 0
            with pytest.raises(NoNode):  # an ephemeral node has no children
                await store.create("/ids/1/x", b"")

        async def second(store: Store) -> None:
            assert await store.children("/ids") == []

        self.tell(tmp_path, first, second)

    def test_multi_does_all_in_order(self, tmp_path: Path) -> None:
        async def story(store: Store) -> None:
            await store.create("/old", b"")
            results = await store.multi(
                [
                    Create("/t", b"topic"),
                    Create("/t/p", b""),
                    Create("/t/n_", b"", sequential=True),
                    Set("/t", b"again", 0),
                    Check("/t", 1),
                    Delete("/old"),
                ]
            )
            assert results[:3] == ["/t", "/t/p", "/t/n_0000000001"]
            assert results[4:] == [None, None]
            assert await store.children("/t") == ["n_0000000001", "p"]
            assert (await store.get("/t")).value == b"again"

        self.tell(tmp_path, story)

    def test_multi_does_nothing_if_one_operation_cannot_be_done(self, tmp_path: Path) -> None:
        async def story(store: Store) -> None:
            await store.create("/guard", b"")
            before = await store.get("/guard")
            for last, error in (
                (Check("/guard", 7), BadVersion),
                (Create("/guard", b""), NodeExists),
                (Delete("/no"), NoNode),
                (Set("/no", b""), NoNode),
            ):
                with pytest.raises(error):
                    await store.multi([Set("/guard", b"x"), Create("/new", b""), last])
                assert await store.get("/guard") == before
                assert await store.children("/") == ["guard"]

        self.tell(tmp_path, story)

    def test_watchers_hear_of_the_node_and_of_its_children_until_they_cancel(
        self, tmp_path: Path
    ) -> None:
        async def story(store: Store) -> None:
            heard: list[str] = []
            await store.create("/w", b"")
            cancel = store.watch("/w", heard.append)
            await store.set("/w", b"1")
            assert heard == ["/w"]
            await store.create("/w/child", b"")
            await store.delete("/w/child")
            assert heard == ["/w", "/w", "/w"]
            await store.create("/other", b"")
            cancel()
            await store.set("/w", b"2")
            assert len(heard) == 3

        self.tell(tmp_path, story)

    def test_a_closed_store_is_a_lost_session(self, tmp_path: Path) -> None:
        async def story(store: Store) -> None:
            await store.close()
            with pytest.raises(SessionLost):
                await store.get("/")

        self.tell(tmp_path, story)
