"""The real world is one of those a broker can be put into."""

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.config.broker import load
from headrace.ports.network import ListenOptions
from headrace.ports.store import SessionEvents
from headrace.posix.network import RealNetwork
from headrace.server.real_world import RealWorld

if TYPE_CHECKING:
    from headrace.ports.world import World


def test_leases_are_counted_on_a_clock_that_goes_on_while_the_machine_sleeps(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        config, _ = load(flags={"log.dirs": str(tmp_path)})
        world: World = RealWorld(config)
        before, awake = world.boot_seconds(), time.clock_gettime(time.CLOCK_BOOTTIME)
        assert 0 <= awake - before < 5
        assert before >= time.monotonic() - 5, "sleep only adds to it"
        assert world.boot_seconds() >= before
        world.close()

    asyncio.run(story())


def test_paths_that_lead_to_one_directory_are_one(tmp_path: Path) -> None:
    async def story() -> None:
        (tmp_path / "data").mkdir()
        (tmp_path / "link").symlink_to(tmp_path / "data")
        config, _ = load(flags={"log.dirs": str(tmp_path / "data")})
        disk = RealWorld(config).disk
        assert disk.real_path(str(tmp_path / "link")) == disk.real_path(str(tmp_path / "data"))

    asyncio.run(story())


def test_the_real_store_is_the_brokers_own_and_lies_in_its_first_directory(tmp_path: Path) -> None:
    async def story() -> None:
        config, _ = load(flags={"log.dirs": f"{tmp_path},{tmp_path / 'other'}"})
        world: World = RealWorld(config)
        assert not world.store_exists()
        store = world.open_store(SessionEvents())
        await store.create("/a", b"")
        await store.close()
        world.close()

    asyncio.run(story())
    assert [one.name for one in tmp_path.iterdir()] == ["headrace-metadata.db"]


class Short(asyncio.Protocol):
    """A connection that ends as soon as it is there."""

    def __init__(self) -> None:
        self.over = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.over.set()


def test_the_real_network_connects_to_what_it_listens_on_and_is_refused_elsewhere() -> None:
    async def story() -> None:
        network = RealNetwork()
        taken = network.listen("127.0.0.1", 0, ListenOptions())
        far = Short()
        await taken.accept(lambda: far)
        near = await network.connect(Short, "127.0.0.1", taken.port)
        await asyncio.gather(near.over.wait(), far.over.wait())
        with pytest.raises(OSError, match="in use"):
            network.listen("127.0.0.1", taken.port, ListenOptions())
        taken.close()
        with pytest.raises(ConnectionRefusedError):
            await network.connect(Short, "127.0.0.1", taken.port)

    asyncio.run(story())
