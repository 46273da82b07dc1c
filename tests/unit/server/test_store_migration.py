"""A single broker's nodes in another store: the same, in one go or after any interruption."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.cluster.store import znodes
from headrace.cluster.store.catalog import Catalog
from headrace.model.errors import ConfigError
from headrace.model.nouns import BrokerId
from headrace.ports.store import Create, Node, Operation, SessionLost, Set, Store
from headrace.posix.store.sqlite_tree import Tree
from headrace.server.cluster import store_migration
from headrace.server.cluster.store_migration import Migrant
from headrace.testing.sim.ensemble import Ensemble

US = Migrant("our-cluster", BrokerId(0))
NODES = {
    "/brokers": b"",
    "/brokers/topics": b"",
    "/brokers/topics/t": b"its replicas",
    "/brokers/topics/t/partitions": b"",
    "/brokers/topics/t/partitions/0": b"",
    "/brokers/topics/t/partitions/0/state": b"who leads",
    "/cluster": b"",
    "/cluster/id": znodes.encode_cluster_id(US.cluster_id),
    "/config": b"",
    "/config/topics": b"",
    "/config/topics/t": b"its settings",
    "/controller_epoch": b"7",
    "/latest_producer_id_block": b"the last block",
}


def ending(store: Store, changes_max: int) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Return a `multi` for the store that does so many changes and no more."""
    left = changes_max
    multi = store.multi

    async def counted(operations: Sequence[Operation]) -> list[Node | str | None]:
        nonlocal left
        left -= 1
        if left < 0:
            raise SessionLost("the story ends it")
        return await multi(operations)

    return counted


async def bring(store: Store, nodes: store_migration.Nodes, migrant: Migrant = US) -> None:
    found = await store_migration.present(store)
    store_migration.check(found, migrant)
    await store_migration.begin(store, found, migrant)
    await store_migration.bring(store, nodes)
    await store_migration.end(store)


def tell(story: Callable[[Store], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        await story(Ensemble(1).session())

    asyncio.run(run())


def test_all_nodes_are_brought_but_for_those_of_sessions() -> None:
    async def story(source: Store) -> None:
        for path, value in NODES.items():
            await source.create(path, value)
        await source.create("/controller", b"", ephemeral=True)
        await source.create("/brokers/ids", b"")
        await source.create("/brokers/ids/0", b"", ephemeral=True)
        target = Ensemble(2).session()
        await bring(target, await store_migration.read_tree(source))
        assert await store_migration.read_tree(target) == {**NODES, "/brokers/ids": b""}

    tell(story)


@pytest.mark.parametrize("changes", range(8))
def test_an_interrupted_migration_goes_on_with_what_there_is_by_then(
    changes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_migration, "OPERATIONS_PER_MULTI", 2)

    async def story(store: Store) -> None:
        with monkeypatch.context() as ended:
            ended.setattr(store, "multi", ending(store, changes))
            with pytest.raises(SessionLost):
                await bring(store, NODES)
        if changes:  # brokers must not take the part for the whole
            with pytest.raises(ConfigError, match="cluster migrate"):
                await Catalog(store).prepare()
            with pytest.raises(ConfigError, match="broker 0 of cluster our-cluster is being"):
                store_migration.check(
                    await store_migration.present(store), US._replace(broker=BrokerId(1))
                )
        # The broker has run on its own in between.
        now = {path: value for path, value in NODES.items() if not path.startswith("/config/topi")}
        now |= {"/controller_epoch": b"9", "/brokers/topics/u": b"new"}
        await bring(store, now)
        assert await store_migration.read_tree(store) == now
        await Catalog(store).prepare()

    tell(story)


@pytest.mark.parametrize(("nodes", "said"), [
    (NODES, "cluster our-cluster is there already"),
    ({"/brokers": b"", "/brokers/ids": b""}, "/brokers is there already"),
    ({"/controller_epoch": b"1"}, "/controller_epoch is there already"),
    ({"/consumers": b""}, "/consumers is there already"),
])  # fmt: skip
def test_a_store_that_has_a_cluster_is_refused(nodes: store_migration.Nodes, said: str) -> None:
    async def story(store: Store) -> None:
        for path, value in nodes.items():
            await store.create(path, value)
        with pytest.raises(ConfigError, match=said):
            store_migration.check(await store_migration.present(store), US)

    tell(story)


def test_what_others_keep_in_the_store_is_left_alone() -> None:
    async def story(store: Store) -> None:
        await store.create("/others/thing", b"theirs", parents=True)
        await bring(store, NODES)
        assert (await store.get("/others/thing")).value == b"theirs"

    tell(story)


def test_of_two_that_begin_at_once_one_is_refused() -> None:
    async def story(store: Store) -> None:
        found = await store_migration.present(store)
        await store_migration.begin(store, found, US)
        with pytest.raises(ConfigError, match="broker 0 of cluster our-cluster is being brought"):
            await store_migration.begin(store, found, Migrant("another", BrokerId(0)))

    tell(story)


paths = st.lists(st.sampled_from("abc-0"), min_size=1, max_size=4).map("/".join)


@st.composite
def trees(draw: st.DrawFn) -> dict[str, bytes]:
    """Nodes, each with its parents."""
    found: dict[str, bytes] = {}
    for path in draw(st.lists(paths, max_size=12)):
        parts = path.split("/")
        for count in range(1, len(parts) + 1):
            found["/" + "/".join(parts[:count])] = draw(st.binary(max_size=2))
    return found


def flat(operations: Sequence[Operation]) -> Iterator[Operation]:
    for batch in store_migration.batches(operations):
        assert 0 < len(batch) <= store_migration.OPERATIONS_PER_MULTI
        yield from batch


@settings(max_examples=60)
@given(wanted=trees(), found=trees())
def test_a_plan_makes_what_is_wanted_of_what_is_found(
    wanted: dict[str, bytes], found: dict[str, bytes]
) -> None:
    tree = Tree(":memory:")
    tree.multi([Create(path, found[path]) for path in sorted(found)])
    plan = store_migration.plan(wanted, found)
    tree.multi(list(flat(plan)))
    below = ["/"]
    left: dict[str, bytes] = {}
    while below:
        path = below.pop()
        left[path] = tree.get(path).value
        below += [f"{path.rstrip('/')}/{name}" for name in tree.children(path)]
    assert left == {**wanted, "/": b""}
    assert store_migration.plan(wanted, wanted) == []
    tree.close()


def test_no_change_is_larger_than_zookeeper_takes() -> None:
    operations = [Create(f"/{number}", bytes(200_000)) for number in range(5)]
    assert [len(batch) for batch in store_migration.batches(operations)] == [2, 2, 1]
    alone = Set("/large", bytes(900_000))
    small = [
        Create(f"/{number}", b"") for number in range(store_migration.OPERATIONS_PER_MULTI + 1)
    ]
    assert [len(batch) for batch in store_migration.batches([alone, *small])] == [1, 500, 1]
