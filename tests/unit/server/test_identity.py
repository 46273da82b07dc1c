"""Which broker this is: by the configuration, else by its directories, else as its store says."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from headrace.cluster.store.catalog import Catalog
from headrace.config.broker import load
from headrace.log import file_names
from headrace.model.errors import ConfigError
from headrace.posix.disk import RealDisk
from headrace.posix.store.embedded_store import EmbeddedStore
from headrace.server import identity
from headrace.testing.clock import SimRandom
from headrace.testing.sim.ensemble import Ensemble


def of(directories: list[Path], broker_id: int | None = None) -> tuple[int, str]:
    """Who a broker with these directories is."""
    flags = {"log.dirs": ",".join(map(str, directories))}
    if broker_id is not None:
        flags["broker.id"] = str(broker_id)
    return identity.in_directories(load(flags=flags)[0], RealDisk(None))


def claimed(directory: Path, broker_id: int, cluster_id: str = "c") -> Path:
    """A directory that a broker has claimed."""
    directory.mkdir()
    content = f"version=0\nbroker.id={broker_id}\ncluster.id={cluster_id}\n"
    (directory / "meta.properties").write_text(content)
    return directory


@pytest.mark.parametrize("known", [0, 1, 7])
def test_a_directory_says_who_its_broker_is(known: int, tmp_path: Path) -> None:
    assert of([claimed(tmp_path / "d", known)]) == (known, "c")
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    assert of([fresh, tmp_path / "d", tmp_path / "not there"]) == (known, "c")


def test_the_first_directory_that_knows_says_who_the_broker_is(tmp_path: Path) -> None:
    first, second = claimed(tmp_path / "1", 0), claimed(tmp_path / "2", 5, "other")
    assert of([first, second]) == (0, "c")
    assert of([second, first]) == (5, "other")


@pytest.mark.parametrize("configured", [0, 1, 9])
def test_what_is_configured_counts_more(configured: int, tmp_path: Path) -> None:
    assert of([claimed(tmp_path / "d", 5)], configured) == (configured, "c")


def test_where_nobody_says_it_has_no_number_and_no_cluster_yet(tmp_path: Path) -> None:
    assert of([tmp_path / "not there"]) == (-1, "")


def test_a_broker_alone_is_broker_0_and_among_others_each_is_given_its_own_id(
    tmp_path: Path,
) -> None:
    config = load(flags={"reserved.broker.max.id": "20"})[0]

    async def story() -> list[int]:
        ensemble = Ensemble(1)
        alone = EmbeddedStore(str(tmp_path / file_names.METADATA))
        given = [await identity.new_broker_id(alone, config)]
        given += [await identity.new_broker_id(ensemble.session(), config) for _ in range(2)]
        await alone.close()
        return given

    assert asyncio.run(story()) == [0, 21, 22]


class _World:
    """A world whose store is an ensemble shared with other brokers."""

    def __init__(self) -> None:
        self.disk = RealDisk(None)
        self.random = SimRandom()

    def shares_store(self) -> bool:
        return True

    def store_exists(self) -> bool:
        return True


def started_in(
    directories: list[Path], in_store: str | None, accept: str | None = None
) -> tuple[tuple[int, str], str | None]:
    """The ids with which a broker starts on a store of cluster `in_store`, and the store's then."""
    flags = {"log.dirs": ",".join(map(str, directories)), "zookeeper.connect": "zk1:2181/orders"}
    if accept is not None:
        flags["accept.cluster.id"] = accept
    config = load(flags=flags)[0]

    async def story() -> tuple[tuple[int, str], str | None]:
        store = Ensemble(1).session()
        if in_store is not None:
            await identity.in_store(store, in_store)
        world: Any = _World()
        ids = await identity.known_or_given(config, world, lambda: store)
        return ids, await Catalog(store).known_cluster_id()

    return asyncio.run(story())


@pytest.mark.parametrize(("in_store", "said"), [(None, "no cluster"), ("d", "cluster d")])
def test_a_store_of_no_cluster_or_another_refuses_the_start(
    in_store: str | None, said: str, tmp_path: Path
) -> None:
    directory = claimed(tmp_path / "d", 1)
    with pytest.raises(ConfigError) as refusal:
        started_in([directory], in_store)
    text = str(refusal.value)
    assert f"log.dirs={directory} belongs to cluster c (meta.properties)" in text
    assert f"zookeeper.connect=zk1:2181/orders has {said}" in text
    assert f"--accept-cluster-id {in_store or 'c'}" in text
    assert "\n" not in text


def test_a_refused_start_writes_nothing_to_the_store(tmp_path: Path) -> None:
    directory = claimed(tmp_path / "d", 1)
    config = load(flags={"log.dirs": str(directory), "zookeeper.connect": "zk1:2181"})[0]

    async def story() -> None:
        store = Ensemble(1).session()
        world: Any = _World()
        with pytest.raises(ConfigError):
            await identity.known_or_given(config, world, lambda: store)
        assert list(await store.children("/")) == []

    asyncio.run(story())


@pytest.mark.parametrize(
    ("in_store", "accept", "cluster"), [("c", None, "c"), (None, "c", "c"), ("d", "d", "d")]
)
def test_a_start_in_the_named_cluster_is_accepted(
    in_store: str | None, accept: str | None, cluster: str, tmp_path: Path
) -> None:
    assert started_in([claimed(tmp_path / "d", 1)], in_store, accept) == ((1, cluster), cluster)


@pytest.mark.parametrize(("in_store", "accept"), [(None, "d"), ("d", "c"), ("d", "e")])
def test_accepting_another_cluster_than_the_one_there_is_refused(
    in_store: str | None, accept: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="trying to join the wrong cluster"):
        started_in([claimed(tmp_path / "d", 1)], in_store, accept)


def test_a_new_directory_joins_the_cluster_of_the_store(tmp_path: Path) -> None:
    assert started_in([tmp_path / "new"], "d") == ((1001, "d"), "d")
