"""The table's bounds, at the bound and one beyond: deadlines, places, memory, refusals."""

from collections.abc import Callable

import pytest

from headrace.model.errors import Malformed
from headrace.net.buffers import BufferPool
from headrace.net.inbox import FIRST_ROOM_BYTES, Inbox
from tests.support.net.connections import Client, Room
from tests.support.net.net import framed, limits_with


def asks_nothing(_: Client) -> None:
    """Send nothing."""


def asks(client: Client) -> None:
    """Send a whole request."""
    client.sends(framed(b"a"))


def begins(client: Client) -> None:
    """Send a whole request and the beginning of another."""
    client.sends(framed(b"a") + b"\0")


def does_not_read(client: Client) -> None:
    """Send a request, leave its answer unread."""
    client.sends(framed(b"a"))
    client.connection.pause_writing()


def is_unknown(client: Client) -> None:
    """Send a request before authentication."""
    client.sends(framed(b"a"))
    client.connection.authenticated = False


@pytest.mark.parametrize(
    ("does", "settings", "seconds", "words"),
    [
        (
            asks_nothing,
            {"connection_first_request_ms": 5000},
            5,
            "no complete request within 5 s",
        ),
        (
            begins,
            {"connection_request_receive_ms": 4000},
            4,
            "a request was not complete within 4 s",
        ),
        (asks, {"connections_max_idle_ms": 6000}, 6, "idle for 6 s (connections.max.idle.ms)"),
        (does_not_read, {"connection_slow_reader_ms": 3000}, 3, "left answers unread for 3 s"),
        (is_unknown, {}, 10, "not authenticated within 10 s"),
    ],
)
def test_a_connection_is_dropped_once_its_time_is_over_and_not_when_it_is_just_up(
    does: Callable[[Client], None],
    settings: dict[str, int],
    seconds: int,
    words: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    room = Room((), (), None, **settings)
    client = room.client()
    does(client)
    room.clock.advance(seconds)
    assert client.transport.ended == ""
    room.clock.advance(1)
    assert client.transport.ended == "aborted"
    assert room.table.dropped == 1
    assert f"10.0.0.1 on PLAINTEXT: dropping the connection: {words}" in caplog.text.replace(
        "the client ", ""
    )


@pytest.mark.parametrize("does", [begins, lambda client: client.sends(framed(b"wait"))])
def test_who_is_asking_or_waits_is_not_idle(does: Callable[[Client], None]) -> None:
    room = Room(connections_max_idle_ms=6000)
    client = room.client()
    does(client)
    room.clock.advance(30)
    assert client.transport.ended == ""


def test_without_a_bound_nobody_is_idle() -> None:
    room = Room(connections_max_idle_ms=-1)
    client = room.client()
    asks(client)
    room.clock.advance(100_000)
    assert client.transport.ended == ""


def test_the_time_of_a_request_begins_with_its_first_byte_and_ends_with_its_last() -> None:
    room = Room(connection_request_receive_ms=4000)
    client = room.client()
    request = framed(b"abcdef")
    client.sends(request)
    for _ in range(5):
        room.clock.advance(3)
        client.sends(request[:5])
        room.clock.advance(3)
        client.sends(request[5:])
    room.clock.advance(20)
    assert client.transport.ended == ""


def test_while_we_do_not_read_no_request_is_late() -> None:
    room = Room(connection_request_receive_ms=4000)
    client = room.client()
    begins(client)
    client.connection.mute(20)
    room.clock.advance(19)
    assert client.transport.ended == ""


def test_buffers_that_lie_unused_go_back_with_the_thirtieth_sweep() -> None:
    room = Room()
    pool = room.table.pool
    buffer = pool.take(100_000)
    pool.give(buffer)
    room.clock.advance(29)
    assert pool.take(100_000) is buffer
    pool.give(buffer)
    room.clock.advance(1)
    assert pool.take(100_000) is not buffer


def test_places_from_an_address_come_free_one_by_one() -> None:
    room = Room(max_connections_per_ip=3)
    clients = [room.client() for _ in range(3)]
    clients[0].leaves()
    assert room.client().transport.ended == ""
    assert room.client().transport.ended == "aborted"
    assert (len(room.table), room.table.accepted, room.table.refused) == (3, 4, 1)
    for client in clients[1:]:
        client.leaves()
    assert room.table.dropped == 0
    assert len(room.table) == 1


def test_one_that_leaves_twice_leaves_once() -> None:
    room = Room(max_connections_per_ip=2)
    first, _ = room.client(), room.client()
    first.leaves()
    room.table.leave(first.connection)
    assert [room.client().transport.ended for _ in range(2)] == ["", "aborted"]


def test_why_a_connection_is_refused_is_said(caplog: pytest.LogCaptureFixture) -> None:
    room = Room(max_connections=2, max_connections_per_ip=1)
    for address in ("10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.3"):
        room.client(address)
    assert [record.getMessage() for record in caplog.records] == [
        "refusing a connection from 10.0.0.1: 1 connections from this address are open, the limit"
        " of max.connections.per.ip",
        "refusing a connection from 10.0.0.3: 2 connections are open, the limit of max.connections",
    ]


def test_as_many_may_wait_to_be_let_in_as_there_are_places_and_no_more() -> None:
    room = Room(delays=(0.0, 60.0), max_connections=3)
    clients = [room.client() for _ in range(4)]
    room.clock.advance()
    assert [client.transport.ended for client in clients] == ["", "", "", "closed"]
    assert (len(room.table), room.table.refused) == (1, 1)


def test_one_that_comes_too_soon_is_left_unread_and_ended_when_its_time_is_over() -> None:
    room = Room(too_soon=(3.0,))
    client = room.client()
    assert not client.transport.reads
    assert (room.sessions, len(room.table), room.table.refused) == ([], 0, 1)
    room.clock.advance(2.9)
    assert client.transport.ended == ""
    room.clock.advance(0.1)
    assert client.transport.ended == "closed"


def test_those_held_off_take_no_more_places_than_there_are() -> None:
    room = Room(too_soon=(0.0, 5.0, 5.0, 5.0), max_connections=3)
    clients = [room.client() for _ in range(4)]
    room.clock.advance()
    assert [client.transport.ended for client in clients] == ["", "", "", "closed"]
    room.clock.advance(5)
    assert [client.transport.ended for client in clients] == ["", "closed", "closed", "closed"]
    assert room.table.refused == 3


def test_when_the_table_closes_those_held_off_are_ended_too() -> None:
    room = Room(too_soon=(5.0, 5.0))
    client = room.client()
    room.table.close()
    assert client.transport.ended == "closed"
    late = room.client()
    room.clock.advance()
    assert late.transport.ended == "closed"


def test_what_a_table_aborts_is_said(caplog: pytest.LogCaptureFixture) -> None:
    room = Room()
    client = room.client()
    room.table.abort()
    assert client.transport.ended == "aborted"
    assert "10.0.0.1 on PLAINTEXT: dropping the connection: the broker is stopping" in caplog.text


def test_an_answer_that_cannot_be_made_ends_its_connection_with_its_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for problem, words in (
        (Malformed("too long"), "dropping the connection: too long"),
        (KeyError("k"), "an answer met a bug of Headrace: please report it with this trace"),
    ):
        caplog.clear()
        room = Room()
        client = room.client()
        client.sends(framed(b"wait"))

        def fails(body: object, problem: Exception = problem) -> bytes:
            raise problem

        (pending,) = room.sessions[0].pending
        pending.head = fails
        pending.resolve(b"x")
        room.clock.advance()
        assert client.transport.ended == "aborted"
        assert f"10.0.0.1 on PLAINTEXT: {words}" in caplog.text
        assert room.fatal == []


# memory


@pytest.mark.parametrize(("queued", "bound"), [(-1, 1 << 62), (0, 0), (1, 1)])
def test_the_bound_of_requests_being_read(queued: int, bound: int) -> None:
    assert limits_with(queued_max_request_bytes=queued).request_bytes_max == bound


def test_limits_are_the_configurations_in_seconds() -> None:
    limits = limits_with(
        connections_max_idle_ms=0,
        connection_first_request_ms=1500,
        connection_request_receive_ms=2500,
        connection_slow_reader_ms=3500,
    )
    assert (limits.idle_seconds_max, limits.first_frame_seconds_max) == (0, 1.5)
    assert (limits.frame_seconds_max, limits.slow_reader_seconds_max) == (2.5, 3.5)


@pytest.mark.parametrize(("size", "capacity"), [(1, 4096), (4096, 4096), (4097, 8192)])
def test_buffers_are_of_powers_of_two_from_a_page_on(size: int, capacity: int) -> None:
    pool = BufferPool(1 << 20)
    assert len(pool.take(size)) == pool.bytes_out == capacity


def received(inbox: Inbox, data: bytes) -> None:
    """Receive `data`, in as many reads as it takes."""
    while data:
        space = inbox.space()
        size = min(len(space), len(data))
        space[:size] = data[:size]
        inbox.filled += size
        data = data[size:]


@pytest.mark.parametrize(
    ("come", "room"),
    [(10, 65536), (FIRST_ROOM_BYTES - 1, 65536), (FIRST_ROOM_BYTES, 1 << 20)],
)
def test_a_large_frame_has_its_whole_room_once_64_kib_of_it_have_come(come: int, room: int) -> None:
    pool = BufferPool(1 << 22)
    inbox = Inbox(memoryview(bytearray(1 << 18)), pool)
    received(inbox, bytes(come))
    assert inbox.keep(0, (1 << 20) - 4)
    assert pool.bytes_out == room
    assert inbox.holds_large is (room > 1 << 18)


def test_a_buffer_as_large_as_the_shared_one_does_not_count_as_large() -> None:
    pool = BufferPool(1 << 22)
    inbox = Inbox(memoryview(bytearray(1 << 16)), pool)
    received(inbox, bytes(10))
    assert inbox.keep(0, 1 << 20)
    assert pool.bytes_out == 1 << 16
    assert not inbox.holds_large
    assert inbox.keep(10, 0)
    assert pool.bytes_out == 0, "what is not large is given back as soon as it is empty"


def test_a_frame_of_known_size_is_looked_at_when_it_is_whole_or_its_room_is_full() -> None:
    inbox = Inbox(memoryview(bytearray(1 << 18)), BufferPool(1 << 22))
    received(inbox, bytes(10))
    assert inbox.received(0)
    inbox.keep(0, 100)
    received(inbox, bytes(89))
    assert not inbox.received(0)
    received(inbox, bytes(1))
    assert inbox.received(0)
    inbox.keep(0, 200_000)
    received(inbox, bytes(FIRST_ROOM_BYTES - 101))
    assert not inbox.received(0)
    received(inbox, bytes(1))
    assert inbox.received(0)
