"""Connections over real sockets on the loop: order, bounds, deadlines."""

import asyncio
import logging
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest

from headrace.model.errors import Malformed
from headrace.net.connection import Connection
from headrace.net.limits import SCRATCH_BYTES, Limits
from headrace.net.listener import Address, Listener
from headrace.net.pending import Body, Pending
from headrace.net.session import CloseConnection, InTurn
from headrace.net.table import ConnectionTable
from headrace.posix.clock import RealClock
from headrace.posix.network import RealNetwork
from tests.support.net import framed, limits_with, until


class Echo:
    """Answers a frame with itself.

    Commands: `wait…` (pending), `turn` (when nothing waits), `bad`, `end`, `bug`, `big`.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.frames: list[bytes] = []
        self.passes = 0
        self.pending: list[Pending] = []
        self.unwritten: Pending | None = None
        """What the next passes wait for."""
        self.gone = False

    def frame(self, frame: memoryview) -> Body | Pending:
        data = bytes(frame)
        if data == b"turn" and self.connection.waits:
            raise InTurn
        self.frames.append(data if len(data) < 100 else data[:100])
        if data.startswith(b"wait"):
            pending = Pending(alone=b"alone" in data)
            pending.head = lambda body: framed(body) if isinstance(body, bytes) else body
            self.pending.append(pending)
            return pending
        if data == b"bad":
            raise Malformed("that is no request")
        if data == b"end":
            raise CloseConnection("as asked")
        if data == b"bug":
            raise KeyError("a bug")
        if data == b"big":
            return [struct.pack(">i", 1 << 20), memoryview(bytes(1 << 20))]
        if data == b"none":
            return None
        return framed(data)

    def run(self, view: memoryview, at: int, filled: int) -> None:
        return None

    def pass_done(self) -> Pending | None:
        self.passes += 1
        return self.unwritten

    def closed(self) -> None:
        self.gone = True


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


class World:
    """A listening table and the sessions it opened."""

    def __init__(self, limits: Limits) -> None:
        self.sessions: list[Echo] = []
        self.fatal: list[Exception] = []
        self.delays: list[float] = []
        """How long the next connections wait to be let in; those after them do not."""
        clock = RealClock(asyncio.get_running_loop())
        self.table = ConnectionTable(
            clock, limits, self.open, self.fatal.append, delay=self.next_delay
        )
        self.listener = Listener.bind(
            Address("PLAINTEXT", "127.0.0.1", 0), self.table, RealNetwork()
        )

    def next_delay(self) -> float:
        return self.delays.pop(0) if self.delays else 0.0

    def open(self, connection: Connection) -> Echo:
        self.sessions.append(Echo(connection))
        return self.sessions[-1]

    @asynccontextmanager
    async def client(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.listener.port)
        try:
            yield reader, writer
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


def on_loop(test: Callable[[World], Awaitable[None]], bounds: Limits | None = None) -> None:
    async def main() -> None:
        world = World(bounds or limits_with())
        await world.listener.accept()
        try:
            await asyncio.wait_for(test(world), 30)
        finally:
            world.listener.close()
            world.table.close()
            world.table.abort()
            await asyncio.sleep(0.01)
            assert len(world.table) == 0
            assert world.table.pool.bytes_out == 0

    asyncio.run(main())


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
            await asyncio.sleep(1.5)
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
