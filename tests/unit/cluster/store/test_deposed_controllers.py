"""A broker that suspects the controller ends its time as the controller, once and no other's."""

import pytest

from headrace.cluster.store import znodes
from headrace.cluster.store.catalog import Catalog
from headrace.model.nouns import BrokerId
from headrace.ports.store import BadVersion, Node, Set
from headrace.server.cluster.broker_watches import depose
from tests.support.sim.catalogs import play

ONE, TWO = BrokerId(1), BrokerId(2)


def test_controller_is_deposed_by_the_registration_of_its_session_alone() -> None:
    async def story(first: Catalog, second: Catalog) -> None:
        path = znodes.broker_path(ONE)
        await first.store.create(path, b"", ephemeral=True)
        registered = (await first.store.get(path)).created
        assert not await depose(second.store, ONE, registered), "there is no controller"
        assert await first.elect(ONE, 1700)
        assert not await depose(second.store, ONE, registered - 1), "a former registration"
        assert not await depose(second.store, TWO, registered), "not registered"
        await second.store.create(znodes.broker_path(TWO), b"", ephemeral=True)
        follower = (await second.store.get(znodes.broker_path(TWO))).created
        assert not await depose(first.store, TWO, follower), "another broker is the controller"
        assert await depose(second.store, ONE, registered)
        assert await second.controller() is None
        await first.multi([Set(znodes.TOPICS, b"written")])  # it still may: none is elected
        assert await second.elect(TWO, 1800)
        with pytest.raises(BadVersion):
            await first.multi([Set(znodes.TOPICS, b"too late")])

    play(story)


def test_controller_that_was_elected_meanwhile_is_not_deposed() -> None:
    async def story(first: Catalog, second: Catalog) -> None:
        path = znodes.broker_path(ONE)
        await first.store.create(path, b"", ephemeral=True)
        registered = (await first.store.get(path)).created
        assert await first.elect(ONE, 1700)
        get = second.store.get

        async def reads_late(wanted: str) -> Node:
            found = await get(wanted)
            if wanted == znodes.CONTROLLER:  # elected again before this arrives
                await first.store.delete(znodes.CONTROLLER)
                assert await first.elect(ONE, 1800)
            return found

        second.store.get = reads_late  # type: ignore[method-assign, assignment]
        assert not await depose(second.store, ONE, registered)
        assert await first.holds_controller()

    play(story)
