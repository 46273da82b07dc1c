"""One simulated machine: its clock, its disk, and what is left of both when the power is cut."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from headrace.ports.network import ListenOptions
from headrace.ports.store import NoNode, SessionEvents
from headrace.testing.sim.cluster import SimCluster
from headrace.testing.sim.ensemble import SESSION_SECONDS, Ensemble
from headrace.testing.sim.history import History
from headrace.testing.sim.loop import SimLoop
from headrace.testing.sim.network import SimNetwork
from headrace.testing.sim.world import SimWorld

if TYPE_CHECKING:
    from headrace.ports.world import World


class Told(asyncio.Protocol):
    """What one end of a connection is told."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.got = b""
        self.lost: list[Exception | None] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.got += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)


class Machines:
    """Two machines."""

    def __init__(self, seed: int) -> None:
        self.loop = SimLoop(seed)
        history = History(self.loop.time)
        self.network = SimNetwork(self.loop, seed, history)
        ensemble = Ensemble(seed, history)
        self.one, self.other = (
            SimWorld(self.loop, name, seed, self.network, ensemble, history)
            for name in ("one", "other")
        )


def play(story: Callable[[Machines], Coroutine[Any, Any, None]], seed: int = 1) -> None:
    machines = Machines(seed)
    machines.loop.play(story(machines))


def test_a_machines_work_is_done_after_a_while_and_told() -> None:
    async def story(machines: Machines) -> None:
        world: World = machines.one
        done: list[object] = []
        file = world.disk.open("/file", create=True)
        file.write_at(0, [b"content"])
        world.disk.flush([file], done.append)
        world.disk.run(lambda: "job", done.append)
        world.clock.call_later(0, lambda: done.append("soon"))
        world.clock.call_later(1, lambda: done.append("later"))
        assert done == []
        await asyncio.sleep(0.5)
        assert sorted(map(str, done)) == ["None", "job", "soon"]
        await asyncio.sleep(1)
        assert done[-1] == "later"
        assert world.boot_seconds() == world.clock.monotonic() == machines.loop.time()

    play(story)


def test_flushes_are_done_in_the_order_they_were_asked_for() -> None:
    async def story(machines: Machines) -> None:
        disk = machines.one.disk
        done: list[int] = []
        file = disk.open("/file", create=True)
        for number in range(20):
            disk.flush([file], lambda _, number=number: done.append(number))  # type: ignore[misc]
        await asyncio.sleep(1)
        assert done == list(range(20))

    play(story)


def test_flush_that_follows_from_a_flush_is_done_once() -> None:
    async def story(machines: Machines) -> None:
        disk = machines.one.disk
        done: list[str] = []
        file = disk.open("/file", create=True)

        def first(error: OSError | None) -> None:
            done.append("first")
            disk.flush([file], lambda _: done.append("second"))

        disk.flush([file], first)
        await asyncio.sleep(1)
        assert done == ["first", "second"]

    play(story)


def test_nothing_of_a_machine_without_power_happens_any_more() -> None:
    async def story(machines: Machines) -> None:
        world = machines.one
        done: list[object] = []
        file = world.disk.open("/file", create=True)
        file.write_at(0, [b"content"])
        for _ in range(2):
            world.disk.flush([file], done.append)
        world.disk.run(lambda: done.append("job"), done.append)
        world.clock.call_later(0, lambda: done.append("soon"))
        world.clock.call_later(1, lambda: done.append("later"))
        syncs = world.sim_disk.syncs
        world.cut_power()
        await asyncio.sleep(100)
        assert done == []
        assert world.sim_disk.syncs == syncs

    play(story)


def test_who_was_connected_hears_of_a_power_cut_and_the_machine_itself_does_not() -> None:
    async def story(machines: Machines) -> None:
        there = machines.one.network.listen("", 9, ListenOptions())
        far = Told()
        await there.accept(lambda: far)
        near = await machines.other.network.connect(Told, "one", 9)
        await asyncio.sleep(1)
        near.transport.write(b"under way")
        machines.one.cut_power()
        await asyncio.sleep(1)
        assert [type(error) for error in near.lost] == [ConnectionResetError]
        assert (far.got, far.lost) == (b"", [])
        try:
            await machines.other.network.connect(Told, "one", 9)
        except ConnectionRefusedError:
            return
        raise AssertionError("somebody listens there")

    play(story)


def test_a_session_of_a_machine_without_power_ends_in_a_while_and_not_before() -> None:
    async def story(machines: Machines) -> None:
        silent, watching = (
            machines.one.open_store(SessionEvents()),
            machines.other.open_store(SessionEvents()),
        )
        await silent.create("/mine", b"", ephemeral=True)
        heard: list[str] = []
        watching.watch("/mine", heard.append)
        machines.one.cut_power()
        asking = asyncio.get_running_loop().create_task(silent.get("/mine"))
        await asyncio.sleep(SESSION_SECONDS - 1)
        assert (await watching.get("/mine")).value == b""
        assert heard == []
        await asyncio.sleep(2)
        assert heard == ["/mine"]
        assert not asking.done(), "it is not answered either"
        try:
            await watching.get("/mine")
        except NoNode:
            return
        raise AssertionError("it is still there")

    play(story)


def test_process_after_a_kill_makes_ids_of_its_own() -> None:
    loop = SimLoop(1)
    cluster = SimCluster(loop, 1)
    made: set[bytes] = set()
    for _ in range(3):
        made.update(cluster.world(1).random.uuid() for _ in range(5))
        del cluster.worlds[1]
    loop.close()
    assert len(made) == 15
