"""The connection on a loop: answers that are cut, too small, not asked for, or do not come."""

import asyncio
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
import uvloop

from headrace.client.transport.events import (
    KEPT_BYTES_MAX,
    SCRATCH_BYTES,
    EventLink,
    EventTransport,
)
from headrace.client.transport.port import Address, ConnectionLost, TimedOut
from tests.support.net.net import framed, until


def told(
    answer: bytes,
    story: Callable[[EventLink], Awaitable[None]],
    new_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
) -> None:
    """Tell a story to a link whose other end answers the first bytes it gets with `answer`."""

    async def main() -> None:
        served = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(OSError):
                await reader.read(1)
                writer.write(answer)
                await reader.read()
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
            served.set()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        link = await EventTransport().connect(Address("127.0.0.1", port), 10)
        try:
            await asyncio.wait_for(story(link), 20)
        finally:
            link.close()
            await asyncio.wait_for(served.wait(), 20)
            server.close()
            await server.wait_closed()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())


def received(link: EventLink, content: bytes) -> None:
    """Hand content to a link as a loop does."""
    while content:
        room = link.get_buffer(-1)
        size = min(len(room), len(content))
        room[:size] = content[:size]
        content = content[size:]
        link.buffer_updated(size)


def test_answers_that_come_byte_by_byte_are_whole_and_in_order() -> None:
    async def story(link: EventLink) -> None:
        first, second = link.send([b"a"]), link.send([b"b"])
        for byte in framed(b"first") + framed(b"the second"):
            received(link, bytes([byte]))
        assert bytes(await first.wait(10)) == b"first"
        assert bytes(await second.wait(10)) == b"the second"
        assert not link.closed

    told(b"", story)


@pytest.mark.parametrize("piece", [1000, SCRATCH_BYTES, 1 << 20])
def test_answers_of_all_sizes_come_whole_however_they_are_cut(piece: int) -> None:
    edge = SCRATCH_BYTES - 4
    sizes = [4, 100_000, edge - 1, edge, edge + 1, 5, 300_000, 299_999, 4]
    answers = [(b"%07d" % number * size)[:size] for number, size in enumerate(sizes)]

    async def story(link: EventLink) -> None:
        replies = [link.send([b"a"]) for _ in answers]
        content = b"".join(map(framed, answers))
        for at in range(0, len(content), piece):
            received(link, content[at : at + piece])
        assert [bytes(await reply.wait(10)) for reply in replies] == answers
        assert not link.closed

    told(b"", story)


@pytest.mark.parametrize("part", [True, False])
def test_a_large_answer_that_is_held_is_not_written_over_by_the_next(part: bool) -> None:
    async def story(link: EventLink) -> None:
        first, second = link.send([b"a"]), link.send([b"b"])
        received(link, framed(b"1" * 100_000))
        held = await first.wait(10)
        if part:
            held = held[50_000:]
        received(link, framed(b"2" * 100_000))
        assert set(held) == {ord("1")}
        assert set(await second.wait(10)) == {ord("2")}

    told(b"", story)


@pytest.mark.parametrize(("largest", "again"), [(100_000, True), (KEPT_BYTES_MAX + 1, False)])
def test_the_memory_of_a_large_answer_is_used_again_unless_it_is_very_large(
    largest: int, again: bool
) -> None:
    async def story(link: EventLink) -> None:
        memories = []
        for size in (largest, 90_000):
            reply = link.send([b"a"])
            received(link, framed(bytes(size)))
            frame = await reply.wait(10)
            assert len(frame) == size
            memories.append(memoryview(frame.obj).nbytes)
            del frame, reply
        assert memories == [largest, largest if again else 90_000]

    told(b"", story)


@pytest.mark.parametrize("size", [-1, 0, 3, (256 << 20) + 1])
def test_a_size_that_no_answer_has_ends_the_connection(size: int) -> None:
    async def story(link: EventLink) -> None:
        with pytest.raises(ConnectionLost, match=f"{size} bytes announced"):
            await link.send([b"a"]).wait(10)
        assert link.closed

    told(struct.pack(">i", size) + bytes(8), story)


def test_an_answer_that_does_not_come_in_time_ends_the_connection() -> None:
    async def story(link: EventLink) -> None:
        with pytest.raises(TimedOut):
            await link.send([b"a"]).wait(0.05)
        assert link.closed
        with pytest.raises(ConnectionLost):
            link.send([b"b"])

    told(b"", story)


def test_an_answer_to_nothing_ends_the_connection() -> None:
    async def story(link: EventLink) -> None:
        link.send([b"a"], answered=False)
        await until(lambda: link.closed)

    told(framed(b"nobody asked"), story)


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_connection_works_on_a_brokers_own_loop_as_on_any(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def story(link: EventLink) -> None:
        assert not link.closed
        assert bytes(await link.send([b"a"]).wait(10)) == b"answer"

    told(framed(b"answer"), story, new_loop)


def test_end_of_a_connection_is_waited_for_whoever_ends_it() -> None:
    async def story(link: EventLink) -> None:
        waiting = [asyncio.ensure_future(link.wait_ended()) for _ in range(2)]
        await asyncio.sleep(0)
        waiting.pop().cancel()
        assert not waiting[0].done()
        link.close()
        await waiting[0]
        await link.wait_ended()

    told(b"", story)

    async def ended_there(link: EventLink) -> None:
        link.send([b"\x00" * 4])
        await link.wait_ended()
        assert link.closed

    told(b"\x00\x00\x00\x00", ended_there)
