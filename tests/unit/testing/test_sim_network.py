"""The simulated network: what a connection promises, and what may go wrong."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from headrace.ports.network import ListenOptions
from headrace.testing.sim.history import History
from headrace.testing.sim.loop import SimLoop
from headrace.testing.sim.network import SimNetwork
from headrace.testing.sim.transport import WINDOW_BYTES, SimTransport

SEEDS = range(8)


class End(asyncio.Protocol):
    """One end that remembers what it was told."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.got = bytearray()
        self.told: list[str] = []
        self.lost: list[Exception | None] = []
        self.stays_open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, SimTransport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.got += data

    def eof_received(self) -> bool:
        return self.stays_open

    def pause_writing(self) -> None:
        self.told.append("pause")

    def resume_writing(self) -> None:
        self.told.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)


class Room:
    """Two machines, one of which listens."""

    def __init__(self, seed: int) -> None:
        self.loop = SimLoop(seed)
        self.history = History(self.loop.time)
        self.network = SimNetwork(self.loop, seed, self.history)
        self.here = self.network.machine("here")
        self.far: list[End] = []
        self.listening = self.network.machine("there").listen("there", 9, ListenOptions())

    def accepted(self) -> End:
        self.far.append(End())
        return self.far[-1]

    async def pair(self) -> tuple[End, End]:
        """A connection's two ends."""
        await self.listening.accept(self.accepted)
        near = await self.here.connect(End, "there", 9)
        await asyncio.sleep(1)
        return near, self.far[-1]


def play(seed: int, story: Callable[[Room], Coroutine[Any, Any, None]]) -> History:
    room = Room(seed)
    room.loop.play(story(room))
    return room.history


@pytest.mark.parametrize("seed", SEEDS)
def test_bytes_arrive_whole_and_in_order_however_they_are_cut(seed: int) -> None:
    sent = [bytes([65 + number]) * (1 + number * number * 700) for number in range(20)]

    async def story(room: Room) -> None:
        near, far = await room.pair()
        for data in sent:
            near.transport.write(data)
            far.transport.writelines([data[:3], data[3:]])
        await asyncio.sleep(10)
        assert bytes(far.got) == bytes(near.got) == b"".join(sent)

    play(seed, story)


def test_different_connections_overtake_each_other_by_the_seed() -> None:
    def first(seed: int) -> int:
        order: list[int] = []

        async def story(room: Room) -> None:
            ends = [(await room.pair())[0] for _ in range(2)]
            for number, far in enumerate(room.far):
                far.data_received = lambda _, number=number: order.append(number)  # type: ignore[method-assign, misc]
            for near in ends:
                near.transport.write(b"x")
            await asyncio.sleep(1)

        play(seed, story)
        return order[0]

    assert {first(seed) for seed in range(10)} == {0, 1}


@pytest.mark.parametrize("seed", SEEDS)
def test_who_does_not_read_stops_who_writes_until_he_does(seed: int) -> None:
    async def story(room: Room) -> None:
        near, far = await room.pair()
        far.transport.pause_reading()
        near.transport.write(bytes(WINDOW_BYTES))
        await asyncio.sleep(1)
        assert near.told == []
        near.transport.write(bytes(1 << 20))
        await asyncio.sleep(60)
        assert near.told == ["pause"]
        assert near.transport.get_write_buffer_size() == 1 << 20
        assert not far.got
        far.transport.resume_reading()
        await asyncio.sleep(60)
        assert near.told == ["pause", "resume"]
        assert len(far.got) == WINDOW_BYTES + (1 << 20)
        assert near.transport.get_write_buffer_size() == 0

    play(seed, story)


def test_a_cut_way_holds_things_up_until_it_is_mended_and_the_way_back_is_another() -> None:
    async def story(room: Room) -> None:
        near, far = await room.pair()
        room.network.cut("here", "there")
        near.transport.write(b"to there")
        far.transport.write(b"to here")
        await asyncio.sleep(100)
        assert (bytes(far.got), bytes(near.got)) == (b"", b"to here")
        room.network.mend("here", "there")
        await asyncio.sleep(1)
        assert bytes(far.got) == b"to there"

    play(1, story)


def test_connecting_hangs_where_the_way_is_cut_and_is_refused_where_nobody_listens() -> None:
    async def story(room: Room) -> None:
        with pytest.raises(ConnectionRefusedError):
            await room.here.connect(End, "there", 10)
        room.network.cut("there", "here")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(100):
                await room.here.connect(End, "there", 9)
        room.network.mend("there", "here")
        await room.listening.accept(room.accepted)
        await asyncio.sleep(1)
        assert [type(error) for error in room.far[0].lost] == [ConnectionResetError]

    play(1, story)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_close_comes_behind_all_that_was_written(seed: int) -> None:
    async def story(room: Room) -> None:
        near, far = await room.pair()
        near.transport.write(bytes(300_000))
        near.transport.close()
        near.transport.write(b"too late")
        assert near.transport.is_closing()
        await asyncio.sleep(10)
        assert len(far.got) == 300_000
        assert near.lost == far.lost == [None]

    play(seed, story)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_abort_resets_the_other_end(seed: int) -> None:
    async def story(room: Room) -> None:
        near, far = await room.pair()
        far.transport.pause_reading()
        near.transport.write(bytes(300_000))
        near.transport.abort()
        await asyncio.sleep(10)
        assert near.lost == [None]
        assert [type(error) for error in far.lost] == [ConnectionResetError]

    play(seed, story)


def test_writing_to_one_who_has_closed_ends_in_a_reset() -> None:
    async def story(room: Room) -> None:
        near, far = await room.pair()
        near.stays_open = True
        far.transport.close()
        await asyncio.sleep(1)
        assert near.lost == []
        near.transport.write(b"unheard")
        await asyncio.sleep(1)
        assert not far.got
        assert [type(error) for error in near.lost] == [ConnectionResetError]

    play(2, story)


def test_reset_by_a_closed_end_comes_behind_what_that_end_sent() -> None:
    async def story(room: Room) -> None:
        near, far = await room.pair()
        for _ in range(20):
            far.transport.write(b"data under way")
        await asyncio.sleep(0.0005)
        near.transport.write(b"the last words")
        near.transport.close()
        await asyncio.sleep(1)
        assert far.got == b"the last words"
        assert len(far.lost) == 1

    for seed in range(40):
        play(seed, story)


def test_broken_links_end_on_both_sides_at_once() -> None:
    async def story(room: Room) -> None:
        near, far = await room.pair()
        room.network.break_links("here", "there")
        await asyncio.sleep(1)
        assert [type(error) for error in (*near.lost, *far.lost)] == [ConnectionResetError] * 2

    play(1, story)


def test_clients_that_come_early_wait_to_be_accepted() -> None:
    async def story(room: Room) -> None:
        near = await room.here.connect(End, "there", 9)
        near.transport.write(b"early")
        await asyncio.sleep(5)
        assert not room.far
        await room.listening.accept(room.accepted)
        await asyncio.sleep(1)
        assert bytes(room.far[0].got) == b"early"

    play(1, story)


def test_what_was_sent_by_a_connection_that_was_given_up_arrives_after_what_is_sent_later() -> None:
    async def story(room: Room) -> None:
        near, far = await room.pair()
        room.network.cut("here", "there")
        near.transport.write(b"first")
        await asyncio.sleep(1)
        room.network.strand("here", "there", 4)
        room.network.mend("here", "there")
        await asyncio.sleep(1)
        assert len(near.lost) == 1
        assert not far.lost
        again, other = await room.pair()
        again.transport.write(b"second")
        await asyncio.sleep(0.5)
        assert not far.got
        assert other.got == b"second"
        await asyncio.sleep(2)
        assert far.got == b"first"
        far.transport.write(b"answer")
        await asyncio.sleep(1)
        assert len(far.lost) == 1

    for seed in SEEDS:
        play(seed, story)


def test_a_port_is_one_listeners_until_he_closes() -> None:
    async def story(room: Room) -> None:
        there = room.network.machine("there")
        with pytest.raises(OSError, match="in use"):
            there.listen("", 9, ListenOptions())
        room.listening.close()
        there.listen("", 9, ListenOptions())
        assert (
            there.listen("", 0, ListenOptions()).port != there.listen("", 0, ListenOptions()).port
        )

    play(1, story)


def test_a_history_tells_every_delivery_and_is_the_seeds() -> None:
    async def story(room: Room) -> None:
        near, _ = await room.pair()
        for _ in range(20):
            near.transport.write(bytes(1000))
        await asyncio.sleep(1)
        near.transport.close()
        await asyncio.sleep(1)

    assert play(5, story).lines == play(5, story).lines
    assert play(5, story).digest() != play(6, story).digest()
    assert sum(" net " in line for line in play(5, story).lines) > 20
