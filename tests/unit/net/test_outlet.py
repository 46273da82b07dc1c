"""Answers with ranges of files, over real sockets: whole, in order, bounded, or the end."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, cast

import pytest
import uvloop

from headrace.net.connection import Connection
from headrace.net.limits import PIECE_BYTES, TURN_BYTES_MAX, Limits
from headrace.net.outlet import Outlet
from tests.support.log.range_server import MEGABYTE, Made, World, content
from tests.support.net.net import limits_with, until

pytestmark = pytest.mark.usefixtures("frequent_sweeps")


@pytest.fixture(params=["uvloop", "asyncio", "transport only"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Over both event loops, and as it goes where there is no socket to write to."""
    if request.param == "transport only":
        begin = Outlet.__init__

        def no_socket(outlet: Outlet, *arguments: Any) -> None:
            begin(outlet, *arguments)
            outlet._descriptor = -1

        monkeypatch.setattr(Outlet, "__init__", no_socket)
    return str(request.param)


@pytest.fixture
def on_loop(way: str) -> Callable[..., None]:
    def run(test: Callable[[World], Awaitable[None]], bounds: Limits | None = None) -> None:
        async def main() -> None:
            world = World(bounds or limits_with())
            await world.listener.accept()
            try:
                await asyncio.wait_for(test(world), 60)
            finally:
                world.listener.close()
                world.table.close()
                world.table.abort()
                await asyncio.sleep(0.01)
                assert len(world.table) == 0
            assert world.fatal == []

        if way == "asyncio":
            asyncio.run(main())
        else:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(main())

    return run


@pytest.mark.parametrize("how", [b"", b" cold", b" sent"])
def test_ranges_arrive_whole_and_in_order_with_what_is_around_them(
    on_loop: Callable[..., None], how: bytes, way: str
) -> None:
    async def test(world: World) -> None:
        async with world.client() as client:
            sizes = [1, 61, PIECE_BYTES, PIECE_BYTES + 1, 3 * MEGABYTE + 7]
            for size in sizes:
                await client.ask(b"before", b"range %d" % size + how, b"between", b"range 5")
            for size in sizes:
                assert await client.answer() == b"before"
                await client.whole_range(size)
                assert await client.answer() == b"between"
                await client.whole_range(5)
            past = sum(one.sent for one in world.shops[0].ranges)
            assert bool(past) == (how == b" sent" and way != "transport only")
            assert world.shops[0].ranges[0].sent == bool(past), "the socket had room for it"
            outlet = world.connections[0].answers._outlet
            assert outlet is not None
            assert outlet.unsent == 0

    on_loop(test)


@pytest.mark.parametrize("how", [b"", b" sent"])
def test_a_client_that_does_not_read_costs_one_piece_and_holds_up_nobody(
    on_loop: Callable[..., None], how: bytes
) -> None:
    async def test(world: World) -> None:
        async with world.client() as slow, world.client() as other:
            await slow.ask(b"range %d" % (8 * MEGABYTE) + how)
            await until(lambda: world.held() > 0)
            await slow.ask(b"after")
            for number in range(20):
                await other.ask(b"%d" % number)
                assert await other.answer() == b"%d" % number
            assert world.held() <= PIECE_BYTES + 100
            await slow.whole_range(8 * MEGABYTE)
            assert await slow.answer() == b"after"

    on_loop(test)


@pytest.mark.parametrize("how", [b"", b" sent"])
def test_slow_clients_share_a_buffer_and_no_bytes(on_loop: Callable[..., None], how: bytes) -> None:
    async def test(world: World) -> None:
        sizes = [4 * MEGABYTE + number for number in range(3)]
        async with world.client() as one, world.client() as two, world.client() as three:
            clients = (one, two, three)
            for client, size in zip(clients, sizes, strict=True):
                await client.ask(b"range %d" % size + how)
            await until(lambda: all(transport_holds(each) for each in world.connections))
            reading = zip(clients, sizes, strict=True)
            await asyncio.gather(*(client.whole_range(size) for client, size in reading))

    on_loop(test)


def transport_holds(connection: Connection) -> bool:
    transport = connection.answers.transport
    return transport is not None and transport.get_write_buffer_size() > 0


def test_more_requests_are_handled_once_the_client_has_read(on_loop: Callable[..., None]) -> None:
    async def test(world: World) -> None:
        async with world.client() as client:
            for _ in range(15):
                await client.ask(b"range %d" % MEGABYTE)
            await until(lambda: world.held() > 0)
            await asyncio.sleep(0.05)
            assert world.shops[0].asked < 10
            for _ in range(15):
                await client.whole_range(MEGABYTE)
            assert world.shops[0].asked == 15

    on_loop(test, limits_with(connection_answer_bytes_max=2 * MEGABYTE))


def test_a_client_that_leaves_too_much_unread_is_dropped_at_the_deadline(
    on_loop: Callable[..., None],
) -> None:
    async def test(world: World) -> None:
        async with world.client() as client:
            await client.ask(b"range %d" % (8 * MEGABYTE))
            await until(lambda: bool(world.shops and world.shops[0].gone))
            assert world.table.dropped == 1
            with pytest.raises(ConnectionError):
                await client.whole_range(8 * MEGABYTE)

    on_loop(test, limits_with(connection_answer_bytes_max=MEGABYTE, connection_slow_reader_ms=300))


@pytest.mark.parametrize("how", [b"", b" sent"])
def test_what_turns_out_bad_is_never_completed_and_ends_that_connection_only(
    on_loop: Callable[..., None], caplog: pytest.LogCaptureFixture, how: bytes
) -> None:
    async def test(world: World) -> None:
        async with world.client() as client, world.client() as other:
            await client.ask(b"range %d bad" % (4 * MEGABYTE) + how, b"after")
            with pytest.raises(ConnectionError):
                await client.answer()
            await other.ask(b"range %d" % MEGABYTE)
            await other.whole_range(MEGABYTE)

    with caplog.at_level(logging.WARNING):
        on_loop(test)
    assert len([line for line in caplog.messages if "checksum" in line]) == 1


@pytest.mark.parametrize("how", [b"", b" cold", b" sent"])
def test_a_client_that_leaves_in_the_middle_is_forgotten(
    on_loop: Callable[..., None], how: bytes
) -> None:
    async def test(world: World) -> None:
        async with world.client() as client:
            await client.ask(b"range %d" % (8 * MEGABYTE) + how)
            await client.read(MEGABYTE)
        await until(lambda: world.shops[0].gone)
        left = world.shops[0].ranges[0].left
        await asyncio.sleep(0.02)
        assert world.shops[0].ranges[0].left == left
        async with world.client() as other:
            await other.ask(b"range 100000")
            await other.whole_range(100_000)

    on_loop(test)


@pytest.mark.parametrize("how", [b"", b" sent"])
@pytest.mark.parametrize("last", [b"end", b"stop"])
def test_what_was_promised_leaves_before_the_connection_ends(
    on_loop: Callable[..., None], last: bytes, how: bytes
) -> None:
    async def test(world: World) -> None:
        async with world.client() as client:
            await client.ask(b"first", b"range %d" % (6 * MEGABYTE) + how)
            if last == b"end":
                await client.ask(b"end")
            assert await client.answer() == b"first"
            if last == b"stop":
                await until(lambda: world.held() > 0)
                world.table.close()
            await client.whole_range(6 * MEGABYTE)
            with suppress(ConnectionResetError):
                assert await client.loop.sock_recv(client.link, 1) == b""

    on_loop(test)


class Greedy:
    """A transport whose client takes everything at once."""

    def __init__(self) -> None:
        self.sent = bytearray()

    def get_extra_info(self, name: str) -> None:
        return None

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes) -> None:
        self.sent += data


class Turns:
    """An outlet's owner, who counts."""

    def __init__(self) -> None:
        self.turns = 0

    def go_on(self) -> None:
        self.turns += 1

    def moved(self) -> None:
        pass

    def lost(self, problem: Exception) -> None:
        raise problem


def test_a_client_that_takes_everything_leaves_the_others_their_turn() -> None:
    transport, owner = Greedy(), Turns()
    piece = memoryview(bytearray(PIECE_BYTES))
    outlet = Outlet(owner, cast("asyncio.Transport", transport), piece, MEGABYTE)
    size = 3 * TURN_BYTES_MAX
    outlet.send([b"head", Made(size), b"tail"])
    for turn in range(1, 4):
        assert owner.turns == turn
        assert outlet.busy
        assert len(transport.sent) <= turn * (TURN_BYTES_MAX + PIECE_BYTES)
        outlet.pump()
    assert not outlet.busy
    assert transport.sent == b"head" + content(size) + b"tail"
