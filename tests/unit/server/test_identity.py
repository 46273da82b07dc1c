"""Which broker this is: by the configuration, else by its directories, else as its store says."""

import asyncio
from pathlib import Path

import pytest

from headrace.config.broker import load
from headrace.log import file_names
from headrace.posix.disk import RealDisk
from headrace.posix.store.embedded_store import EmbeddedStore
from headrace.server import identity
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
