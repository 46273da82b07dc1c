"""Groups below /consumers: members, owners and offsets as consumers before Kafka 0.9 kept them."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from headrace.cluster.store.catalog import Catalog
from headrace.coordination.groups.messages import OffsetToCommit
from headrace.ports.store import NoNode, SessionLost, Store
from headrace.server.cluster.group_mirror import GroupMirror
from headrace.shards.shard import ShardState
from headrace.testing.disk import SimDisk
from headrace.testing.sim.ensemble import Ensemble
from headrace.wire.kafka.consumer_protocol import assignment, subscription
from tests.support.coordination.groups_kit import Room
from tests.support.processes import broker as broker_kit

FAST = {"zookeeper_consumers_mirror_writes_per_second_max": "1000000"}


class Here:
    """Two sessions of one store, groups, and their mirror."""

    def __init__(self, broker: Any, ensemble: Ensemble) -> None:
        self.store = ensemble.session()
        self.other = ensemble.session()
        self.groups = Room()
        self.mirror = GroupMirror(broker, self.store, lambda: self.groups.groups)

    async def names(self, path: str) -> list[str]:
        return await self.other.children(f"/consumers/{path}")

    async def value(self, path: str) -> bytes:
        return (await self.other.get(f"/consumers/{path}")).value

    def member(self, group: str = "g") -> tuple[str, int]:
        """Have a member join and be given t-0."""
        kit = self.groups
        name, answers = kit.new_member(group=group, protocols=(("range", subscription(["t"])),))
        kit.clock.advance()
        (answer,) = answers
        plan = {name: assignment(0, {"t": [0]})}
        kit.sync(name, answer.generation, plan, group=group)
        return name, answer.generation


def tell(place: Path, story: Callable[[Here], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        async with broker_kit.room(place, SimDisk(), authorizer=None, **FAST) as room:  # type: ignore[arg-type]
            ensemble = Ensemble(1)
            await Catalog(ensemble.session()).prepare()
            await story(Here(room.broker, ensemble))

    broker_kit.play(run())


def test_members_owners_and_offsets_are_where_old_consumers_kept_them(tmp_path: Path) -> None:
    async def story(here: Here) -> None:
        name, generation = here.member()
        here.groups.commit(name, generation, (OffsetToCommit("t", 0, 42),))
        await here.mirror.bring_up_to_date()
        assert await here.names("g/ids") == [name]
        said = json.loads(await here.value(f"g/ids/{name}"))
        assert said.pop("timestamp").isdigit()
        assert said == {"version": 1, "subscription": {"t": 1}, "pattern": "static"}
        assert await here.value("g/owners/t/0") == f"{name}-0".encode()
        assert await here.value("g/offsets/t/0") == b"42"
        owners = [
            (await here.other.get(f"/consumers/g/{path}")).owner
            for path in (f"ids/{name}", "owners/t/0", "offsets/t/0")
        ]
        assert owners == [here.store.session, here.store.session, 0]

    tell(tmp_path, story)


def test_only_what_has_changed_is_written(tmp_path: Path) -> None:
    async def story(here: Here) -> None:
        here.groups.commit(offsets=[OffsetToCommit("t", index, 1) for index in (0, 1)])
        await here.mirror.bring_up_to_date()
        here.groups.commit(offsets=[OffsetToCommit("t", 0, 2)])
        await here.mirror.bring_up_to_date()
        versions = [
            (await here.other.get(f"/consumers/g/offsets/t/{index}")).version for index in (0, 1)
        ]
        assert versions == [1, 0]

    tell(tmp_path, story)


def test_a_group_that_is_gone_leaves_nothing_behind(tmp_path: Path) -> None:
    async def story(here: Here) -> None:
        here.groups.commit(group="h")
        here.groups.commit()
        await here.mirror.bring_up_to_date()
        here.groups.groups.delete("g", lambda _: None)
        here.groups.clock.advance()
        await here.mirror.bring_up_to_date()
        assert await here.other.children("/consumers") == ["h"]

    tell(tmp_path, story)


def test_what_another_coordinates_now_is_left_to_it(tmp_path: Path) -> None:
    async def story(here: Here) -> None:
        name, generation = here.member()
        here.groups.commit(name, generation)
        path = f"/consumers/g/ids/{name}"
        await here.other.create(path, b"former", ephemeral=True, parents=True)
        await here.mirror.bring_up_to_date()
        assert (await here.other.get(path)).owner == here.store.session
        await here.other.delete(path)
        await here.other.create(path, b"newer", ephemeral=True)
        here.groups.groups.led.close()
        await here.mirror.bring_up_to_date()
        assert (await here.other.get(path)).value == b"newer"
        with pytest.raises(NoNode):
            await here.value("g/owners/t/0")
        assert await here.value("g/offsets/t/0") == b"7"

    tell(tmp_path, story)


def test_what_is_shown_of_a_partition_that_is_being_loaded_stays(tmp_path: Path) -> None:
    async def story(here: Here) -> None:
        name, _ = here.member()
        await here.mirror.bring_up_to_date()
        for shard in here.groups.groups.led:
            shard.state = ShardState.LOADING
        await here.mirror.bring_up_to_date()
        assert await here.names("g/ids") == [name]

    tell(tmp_path, story)


def test_names_that_no_znode_can_have_are_left_out(tmp_path: Path) -> None:
    async def story(here: Here) -> None:
        for group in ("a/b", "..", "é", "fine"):
            here.groups.commit(group=group)
        await here.mirror.bring_up_to_date()
        assert await here.other.children("/consumers") == ["fine"]

    tell(tmp_path, story)


def test_a_session_that_ended_has_all_of_it_written_again_by_the_next(tmp_path: Path) -> None:
    async def story(here: Here) -> None:
        name, _ = here.member()
        await here.mirror.bring_up_to_date()
        later = GroupMirror(here.mirror._broker, here.other, lambda: here.groups.groups)
        here.mirror._store = store = Lost(here.other)  # type: ignore[assignment]
        with pytest.raises(SessionLost):
            await here.mirror.bring_up_to_date()
        assert store.asked
        await later.bring_up_to_date()
        node = await here.other.get(f"/consumers/g/ids/{name}")
        assert node.owner == here.other.session

    tell(tmp_path, story)


class Lost:
    """A store whose session has just been replaced, and which is not heard of again."""

    def __init__(self, store: Store) -> None:
        self.session = store.session
        self.asked = 0

    async def create(self, *args: Any, **options: Any) -> str:
        self.asked += 1
        await asyncio.sleep(0)
        raise SessionLost("gone")
