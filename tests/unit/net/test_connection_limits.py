"""Connections over real sockets: deadlines, places, memory, and being let in."""

import asyncio
import struct
from contextlib import AsyncExitStack, suppress

import pytest

from headrace.net.limits import SCRATCH_BYTES, Limits
from tests.support.net.echo import World, on_loop, read_frame
from tests.support.net.net import framed, limits_with, until

pytestmark = pytest.mark.usefixtures("frequent_sweeps")


@pytest.mark.parametrize(
    ("limits", "sent"),
    [
        (limits_with(connection_first_request_ms=300), b""),
        (limits_with(connection_first_request_ms=300), b"\x00\x00\x00\x09half"),
        (limits_with(connection_request_receive_ms=300), framed(b"a") + b"\x00\x00\x00\x09half"),
        (limits_with(connections_max_idle_ms=300), framed(b"a")),
    ],
)
def test_a_silent_or_slow_client_is_dropped_at_its_deadline(limits: Limits, sent: bytes) -> None:
    async def test(world: World) -> None:
        async with world.client() as (reader, writer):
            writer.write(sent)
            if sent.startswith(framed(b"a")):
                assert await read_frame(reader) == b"a"
            with suppress(ConnectionResetError):
                assert await reader.read() == b""
            assert world.table.dropped == 1

    on_loop(test, limits)


def test_a_waiting_request_keeps_its_connection_from_being_idle() -> None:
    async def test(world: World) -> None:
        async with world.client() as (reader, writer):
            writer.write(framed(b"wait"))
            await asyncio.sleep(0.5)
            world.sessions[0].pending[0].resolve(b"at last")
            assert await read_frame(reader) == b"at last"

    on_loop(test, limits_with(connections_max_idle_ms=200))


def test_connections_beyond_the_bounds_are_refused_and_places_come_free() -> None:
    async def test(world: World) -> None:
        async with world.client() as (reader, writer):
            writer.write(framed(b"a"))
            assert await read_frame(reader) == b"a"
            async with world.client() as (refused, _):
                with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
                    await refused.readexactly(1)
        await until(lambda: len(world.table) == 0)
        async with world.client() as (reader, writer):
            writer.write(framed(b"b"))
            assert await read_frame(reader) == b"b"

    on_loop(test, limits_with(max_connections=1))
    on_loop(test, limits_with(max_connections_per_ip=1))


def test_announcements_alone_hold_little_of_the_memory_for_large_frames() -> None:
    async def test(world: World) -> None:
        size = SCRATCH_BYTES * 8
        async with world.client() as (_, liar), world.client() as (reader, honest):
            liar.write(struct.pack(">i", size) + b"no more than this")
            await until(lambda: world.table.pool.bytes_out > 0)
            body = bytes(range(256)) * (size // 256)
            for piece in (10, 1000, 100_000, size):  # room grows, several times
                honest.write(framed(body)[:piece])
                await honest.drain()
                await asyncio.sleep(0.02)
                honest.write(framed(body)[piece:] + framed(b"next"))
                assert await read_frame(reader) == body
                assert await read_frame(reader) == b"next"

    on_loop(test, limits_with(queued_max_request_bytes=SCRATCH_BYTES * 17))


def test_large_frames_wait_for_the_memory_of_others_and_small_ones_do_not() -> None:
    async def test(world: World) -> None:
        size = SCRATCH_BYTES * 4
        async with world.client() as (reader1, first), world.client() as (reader2, second):
            body = bytes(size)
            first.write(framed(body)[: size // 2])
            await until(lambda: world.table.pool.bytes_out > SCRATCH_BYTES)
            held = world.table.pool.bytes_out
            second.write(framed(b"small") + framed(body))
            assert await read_frame(reader2) == b"small"
            await asyncio.sleep(0.05)
            assert world.table.pool.bytes_out < held + size
            first.write(framed(body)[size // 2 :])
            assert await read_frame(reader1) == body
            first.close()
            assert await read_frame(reader2) == body

    on_loop(test, limits_with(queued_max_request_bytes=SCRATCH_BYTES * 9))


def test_connections_are_let_in_one_after_the_other_and_lose_nothing() -> None:
    async def test(world: World) -> None:
        world.delays = [0.0, 0.05, 0.02, 0.0, 0.02]
        async with AsyncExitStack() as stack:
            streams = []
            for number in range(6):
                reader, writer = await stack.enter_async_context(world.client())
                writer.write(framed(b"%d" % number))
                streams.append(reader)
            for number, reader in enumerate(streams):
                assert await read_frame(reader) == b"%d" % number
            assert [one.frames for one in world.sessions] == [[b"%d" % n] for n in range(6)]
            assert world.delays == []
            assert world.table.accepted == 6

    on_loop(test)


def test_a_client_that_leaves_while_it_waits_to_be_let_in_is_let_go() -> None:
    async def test(world: World) -> None:
        world.delays = [0.05, 0.0]
        async with world.client() as (_, writer):
            writer.write(framed(b"gone"))
        async with world.client() as (reader, writer):
            writer.write(framed(b"a"))
            assert await read_frame(reader) == b"a"
            await until(lambda: len(world.table) == 1)

    on_loop(test)


def test_who_waits_to_be_let_in_is_bounded_and_ended_with_the_rest() -> None:
    async def test(world: World) -> None:
        world.delays = [60.0]
        async with world.client() as (waiting, _), world.client() as (refused, _):
            assert await refused.read() == b""
            assert (world.table.refused, len(world.sessions)) == (1, 0)
            world.table.close()
            assert await waiting.read() == b""

    on_loop(test, limits_with(max_connections=1))
