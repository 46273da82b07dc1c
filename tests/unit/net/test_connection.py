"""Connections over real sockets on the loop: order, bounds of what waits, bad requests."""

import asyncio
import logging
import struct
from contextlib import suppress

import pytest

from headrace.net.limits import SCRATCH_BYTES
from headrace.net.pending import Body, Pending
from headrace.net.session import CloseConnection
from tests.support.net.echo import World, on_loop, read_frame
from tests.support.net.net import framed, limits_with, until

pytestmark = pytest.mark.usefixtures("frequent_sweeps")


def test_a_client_that_comes_before_the_broker_is_ready_waits_for_it() -> None:
    async def main() -> None:
        world = World(limits_with())
        async with world.client() as (reader, writer):
            writer.write(framed(b"early"))
            await asyncio.sleep(0.02)
            await world.listener.accept()
            assert await asyncio.wait_for(read_frame(reader), 30) == b"early"
        world.listener.close()
        world.table.close()
        await asyncio.sleep(0.01)

    asyncio.run(main())


@pytest.mark.parametrize("fails", [False, True])
def test_a_pass_whose_writes_are_being_done_holds_its_connection_and_no_other(
    fails: bool,
) -> None:
    async def test(world: World) -> None:
        async with world.client() as (reader, writer), world.client() as (other, its):
            writer.write(framed(b"first"))
            assert await read_frame(reader) == b"first"
            session = next(one for one in world.sessions if one.frames)
            written = session.unwritten = Pending()
            writer.write(framed(b"one") + framed(b"wait"))
            await until(lambda: session.passes == 2)
            session.pending[0].resolve(b"answer")
            writer.write(framed(b"more"))
            its.write(framed(b"two"))
            assert await read_frame(other) == b"two"
            await asyncio.sleep(0.02)
            assert session.frames == [b"first", b"one", b"wait"], "the rest is not handled yet"
            session.unwritten = None
            if fails:
                written.fail(CloseConnection("not written"))
                with suppress(ConnectionResetError):  # for bytes of it lie unread
                    assert await reader.read() == b"", "nothing of the pass may leave"
                return
            written.resolve(None)
            for answer in (b"one", b"answer", b"more"):
                assert await read_frame(reader) == answer

    on_loop(test)


def test_frames_cut_anywhere_arrive_whole_and_in_order() -> None:
    async def test(world: World) -> None:
        async with world.client() as (reader, writer):
            sent = [bytes([65 + i]) * (i * 37 % 500 + 1) for i in range(60)]
            stream = b"".join(map(framed, sent))
            for at in range(0, len(stream), 701):
                writer.write(stream[at : at + 701])
                await writer.drain()
                await asyncio.sleep(0)
            assert [await read_frame(reader) for _ in sent] == sent

    on_loop(test)


def test_all_frames_of_one_read_are_one_pass() -> None:
    async def test(world: World) -> None:
        async with world.client() as (reader, writer):
            writer.write(b"".join(framed(b"%d" % i) for i in range(50)))
            for i in range(50):
                assert await read_frame(reader) == b"%d" % i
            assert world.sessions[0].passes == 1

    on_loop(test)


def test_large_frames_are_received_whole_whatever_their_sizes() -> None:
    async def test(world: World) -> None:
        async with world.client() as (reader, writer):
            full = SCRATCH_BYTES
            for size in (full * 3, 5, full * 9 + 1, full - 4, 1, 3_000_000):
                body = bytes([size % 251]) * size
                writer.write(framed(body) + framed(b"after"))
                assert await read_frame(reader) == body
                assert await read_frame(reader) == b"after"

    on_loop(test)


def test_answers_keep_the_order_of_the_requests_when_resolved_in_another() -> None:
    async def test(world: World) -> None:
        async with world.client() as (reader, writer):
            writer.write(framed(b"a") + framed(b"wait1") + framed(b"b") + framed(b"wait2"))
            assert await read_frame(reader) == b"a"
            session = world.sessions[0]
            session.pending[1].resolve(b"second")
            await asyncio.sleep(0.02)
            session.pending[0].resolve(b"first")
            assert [await read_frame(reader) for _ in range(3)] == [b"first", b"b", b"second"]

    on_loop(test)


def test_a_request_without_answer_takes_no_place() -> None:
    async def test(world: World) -> None:
        async with world.client() as (reader, writer):
            writer.write(framed(b"none") + framed(b"a"))
            assert await read_frame(reader) == b"a"

    on_loop(test)


@pytest.mark.parametrize("size", [-1, 0, -(2**31), 2**31 - 1, 101])
def test_a_lying_length_closes_that_connection_only_with_one_line(
    size: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(world: World) -> None:
        async with world.client() as (other_reader, other), world.client() as (reader, writer):
            other.write(framed(b"x"))
            assert await read_frame(other_reader) == b"x"
            writer.write(framed(b"fine") + struct.pack(">i", size))
            assert await read_frame(reader) == b"fine"
            assert await reader.read() == b""
            other.write(framed(b"y"))
            assert await read_frame(other_reader) == b"y"

    with caplog.at_level(logging.WARNING):
        on_loop(test, limits_with(socket_request_max_bytes=100))
    assert len([r for r in caplog.records if r.levelno >= logging.WARNING]) == 1


@pytest.mark.parametrize("command", [b"bad", b"end", b"bug"])
def test_a_request_that_cannot_be_answered_ends_its_connection_only(
    command: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(world: World) -> None:
        async with world.client() as (other_reader, other), world.client() as (reader, writer):
            writer.write(framed(b"before") + framed(command) + framed(b"after"))
            assert await read_frame(reader) == b"before"
            assert await reader.read() == b""
            other.write(framed(b"y"))
            assert await read_frame(other_reader) == b"y"
            await until(lambda: any(one.gone for one in world.sessions))

    on_loop(test)
    if command == b"bug":
        assert "KeyError" in caplog.text


def test_an_answer_that_cannot_be_made_keeps_no_other_connections_answer_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test(world: World) -> None:
        async with world.client() as (_, writer), world.client() as (other_reader, other):
            writer.write(framed(b"wait"))
            await until(lambda: bool(world.sessions and world.sessions[0].pending))
            other.write(framed(b"wait"))
            await until(lambda: len(world.sessions) == 2 and bool(world.sessions[1].pending))

            def impossible(body: Body) -> Body:
                raise KeyError("a bug")

            (broken,), (sound,) = (session.pending for session in world.sessions)
            broken.head = impossible
            broken.resolve(b"x")
            sound.resolve(b"y")
            assert await read_frame(other_reader) == b"y"
            await until(lambda: world.sessions[0].gone)

    on_loop(test)
    assert "KeyError" in caplog.text


def test_a_client_that_leaves_is_not_waited_for() -> None:
    async def test(world: World) -> None:
        abandoned: list[bool] = []
        async with world.client() as (_, writer):
            writer.write(framed(b"wait"))
            await until(lambda: bool(world.sessions and world.sessions[0].pending))
            pending = world.sessions[0].pending[0]
            pending.on_abandon = lambda: abandoned.append(True)
        await until(lambda: world.sessions[0].gone)
        assert abandoned == [True]
        pending.resolve(b"too late")

    on_loop(test)


def test_requests_beyond_the_bound_wait_until_others_are_answered() -> None:
    async def test(world: World) -> None:
        async with world.client() as (reader, writer):
            writer.write(b"".join(framed(b"wait%d" % i) for i in range(20)))
            await until(lambda: bool(world.sessions and len(world.sessions[0].pending) == 4))
            await asyncio.sleep(0.05)
            session = world.sessions[0]
            assert len(session.pending) == 4
            for i in range(20):
                await until(lambda i=i: len(session.pending) > i)  # type: ignore[misc]
                session.pending[i].resolve(b"%d" % i)
                assert await read_frame(reader) == b"%d" % i

    on_loop(test, limits_with(connection_requests_max=4))


def test_a_client_that_does_not_read_is_asked_no_more_and_dropped_at_the_deadline() -> None:
    async def test(world: World) -> None:
        async with world.client() as (_, writer):
            for _ in range(200):
                writer.write(framed(b"big"))
            await until(lambda: bool(world.sessions and world.sessions[0].gone))
            assert len(world.sessions[0].frames) < 100

    on_loop(test, limits_with(connection_answer_bytes_max=1 << 20, connection_slow_reader_ms=500))


def test_the_answers_of_one_read_are_bounded_too() -> None:
    """Requests are small and what they ask for is not: 256 KB of Fetch could ask for gigabytes."""

    async def test(world: World) -> None:
        async with world.client() as (reader, writer):
            writer.write(framed(b"big") * 500)
            await until(lambda: bool(world.sessions and world.sessions[0].frames))
            await asyncio.sleep(0.1)
            assert len(world.sessions[0].frames) < 20  # a few fit the sockets' buffers
            for _ in range(500):
                assert len(await read_frame(reader)) == 1 << 20

    on_loop(test, limits_with(connection_answer_bytes_max=2 << 20))


def test_what_waits_alone_has_nothing_handled_behind_it() -> None:
    async def test(world: World) -> None:
        async with world.client() as (reader, writer):
            writer.write(framed(b"wait-alone") * 3 + framed(b"after"))
            for i in range(3):
                await until(lambda i=i: bool(world.sessions) and len(world.sessions[0].pending) > i)  # type: ignore[misc]
                await asyncio.sleep(0.02)
                assert len(world.sessions[0].frames) == i + 1
                world.sessions[0].pending[i].resolve(b"%d" % i)
                assert await read_frame(reader) == b"%d" % i
            assert await read_frame(reader) == b"after"

    on_loop(test)


def test_what_is_taken_in_turn_is_handled_once_and_when_all_before_it_is_answered() -> None:
    async def test(world: World) -> None:
        async with world.client() as (reader, writer):
            writer.write((framed(b"wait1") + framed(b"wait2") + framed(b"turn")) * 2 + framed(b"b"))
            await until(lambda: bool(world.sessions))
            session = world.sessions[0]
            handled: list[bytes] = []
            for number in range(4):
                handled += [b"wait1", b"wait2"] if number % 2 == 0 else []
                await until(lambda: len(session.pending) == 2 + number // 2 * 2)  # noqa: B023
                await asyncio.sleep(0.02)
                assert session.frames == handled
                session.pending[number].resolve(b"%d" % number)
                assert await read_frame(reader) == b"%d" % number
                if number % 2:
                    handled.append(b"turn")
                    assert await read_frame(reader) == b"turn"
            assert await read_frame(reader) == b"b"
            assert session.frames == [*handled, b"b"]
            assert session.passes < 10, "it does not ask again and again"

    on_loop(test)


def test_a_client_that_reads_late_gets_everything() -> None:
    async def test(world: World) -> None:
        async with world.client() as (reader, writer):
            for _ in range(40):
                writer.write(framed(b"big"))
            await asyncio.sleep(0.2)
            for _ in range(40):
                assert len(await read_frame(reader)) == 1 << 20

    on_loop(test, limits_with(connection_answer_bytes_max=1 << 20))
