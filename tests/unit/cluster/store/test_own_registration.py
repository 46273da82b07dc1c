"""A broker's registration in a store that others use too, and the session it keeps in its logs."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.metadata_image import Endpoint
from headrace.cluster.membership.registration import OwnRegistration
from headrace.cluster.store import znodes
from headrace.cluster.store.catalog import Catalog
from headrace.cluster.store.stored_doubts import LOST
from headrace.cluster.store.znodes import Registration
from headrace.model.errors import ConfigError
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.testing.disk import SimDisk
from headrace.testing.sim.ensemble import Ensemble
from tests.support.processes.broker import Room, play, room

ME = znodes.broker_path(BrokerId(0))
HERE = [Endpoint("PLAINTEXT", "here", 9092, "PLAINTEXT")]
THERE = Registration((Endpoint("PLAINTEXT", "there", 9099, "PLAINTEXT"),))


def tell(place: Path, story: Callable[[Room, Ensemble], Coroutine[Any, Any, None]]) -> None:
    """Run a story of broker 0, with two log directories, and a store that others use too."""

    async def run() -> None:
        async with room(place, SimDisk(), directories=("/a", "/b")) as here:
            ensemble = Ensemble(1)
            await Catalog(ensemble.session()).prepare()
            await story(here, ensemble)

    play(run())


def test_a_former_session_that_the_directories_name_gives_way(tmp_path: Path) -> None:
    async def story(here: Room, ensemble: Ensemble) -> None:
        first, second = ensemble.session(), ensemble.session()
        former = await OwnRegistration(here.broker, first).announce(HERE)
        await first.create(znodes.CONTROLLER, b"", ephemeral=True)
        epoch = await OwnRegistration(here.broker, second).announce(HERE)
        assert epoch > former
        node = await second.get(ME)
        assert (node.owner, node.created) == (second.session, epoch)
        assert "controller" not in await second.children("/")

    tell(tmp_path, story)


def test_another_brokers_registration_stays_and_is_told_with_its_place(tmp_path: Path) -> None:
    async def story(here: Room, ensemble: Ensemble) -> None:
        other, mine = ensemble.session(), ensemble.session()
        await other.create(ME, znodes.encode_registration(THERE), ephemeral=True)
        await other.create(znodes.CONTROLLER, b"", ephemeral=True)
        own = OwnRegistration(here.broker, mine)
        with pytest.raises(ConfigError, match=f"broker.id=0.*there:9099.*{other.session:#x}"):
            await own.announce(HERE)
        assert (await mine.get(ME)).owner == other.session
        assert (await mine.get(znodes.CONTROLLER)).owner == other.session
        assert await own.epoch() is None

    tell(tmp_path, story)


def test_the_session_is_kept_before_anything_is_made_in_it(tmp_path: Path) -> None:
    async def story(here: Room, ensemble: Ensemble) -> None:
        session = ensemble.session()
        seen: list[bool] = []
        session.watch(ME, lambda _: seen.append(here.disk.exists("/a/headrace-session")))
        await OwnRegistration(here.broker, session).announce(HERE)
        assert seen
        assert all(seen)

    tell(tmp_path, story)


@pytest.mark.parametrize("what", ["another machine, or its next start", "another directory"])
def test_a_copy_of_the_directories_is_somebody_else(tmp_path: Path, what: str) -> None:
    async def story(here: Room, ensemble: Ensemble) -> None:
        first, second = ensemble.session(), ensemble.session()
        await OwnRegistration(here.broker, first).announce(HERE)
        if what == "another directory":
            here.disk.replace("/b/headrace-session", read(here.disk, "/a/headrace-session"))
            here.disk.remove("/a/headrace-session")
        else:
            here.disk.boot = "another"
        with pytest.raises(ConfigError, match="a broker with this id is running at here:9092"):
            await OwnRegistration(here.broker, second).announce(HERE)
        assert (await second.get(ME)).owner == first.session

    tell(tmp_path, story)


def test_where_the_first_directory_has_failed_the_next_keeps_the_session(tmp_path: Path) -> None:
    async def story(here: Room, ensemble: Ensemble) -> None:
        first, second = ensemble.session(), ensemble.session()
        here.broker.directories[0].context.fail(OSError(5, "broken"), "/a")
        await OwnRegistration(here.broker, first).announce(HERE)
        assert not here.disk.exists("/a/headrace-session")
        await OwnRegistration(here.broker, second).announce(HERE)
        assert (await second.get(ME)).owner == second.session

    tell(tmp_path, story)


def test_a_file_that_names_no_session_is_refused_by_name(tmp_path: Path) -> None:
    async def story(here: Room, ensemble: Ensemble) -> None:
        here.disk.replace("/b/headrace-session", b"version: 0\nsession: what?\n")
        with pytest.raises(
            ConfigError, match="/b/headrace-session: malformed, it has no session id"
        ):
            await OwnRegistration(here.broker, ensemble.session()).announce(HERE)

    tell(tmp_path, story)


def test_after_an_expiry_it_is_announced_again_in_the_new_session(tmp_path: Path) -> None:
    async def story(here: Room, ensemble: Ensemble) -> None:
        session = ensemble.session()
        own = OwnRegistration(here.broker, session)
        former = await own.announce(HERE)
        assert await own.epoch() == former
        ensemble.expire(session)
        assert await own.epoch() is None
        epoch = await own.announce_again()
        assert epoch > former
        assert await own.epoch() == epoch
        endpoint = znodes.decode_registration(
            BrokerId(0), ME, (await session.get(ME)).value, epoch
        ).endpoints[0]
        assert endpoint.host == "here"
        content = await asyncio.to_thread(read, here.disk, "/a/headrace-session")
        assert content.startswith(f"version: 0\nsession: {session.session}\n".encode())

    tell(tmp_path, story)


def read(disk: SimDisk, path: str) -> bytes:
    file = disk.open(path, writable=False)
    return file.read(0, file.size())


def test_more_doubts_than_zookeeper_takes_refuse_the_start(tmp_path: Path) -> None:
    async def story(here: Room, ensemble: Ensemble) -> None:
        lost = {TopicPartition("t" * 40, index): LOST for index in range(200_000)}
        store = ensemble.session()
        registration = OwnRegistration(here.broker, store)
        with pytest.raises(ConfigError, match="200000 of its replicas may lack"):
            await registration.announce(HERE, lost)
        few = dict(list(lost.items())[:1000])
        assert await registration.announce(HERE, few) > 0

    tell(tmp_path, story)
