"""Ranges of files through a transport in hand: how much at a time, and what waits for what."""

from collections.abc import Callable

import pytest

from headrace.model.errors import CorruptLogError
from headrace.model.invariant import InvariantError
from headrace.net.connection import Connection
from headrace.net.limits import PIECE_BYTES, TURN_BYTES_MAX
from headrace.net.outlet import Outlet
from headrace.net.pending import Pending
from headrace.ports.file_ranges import FileRange
from tests.support.net.connections import Client, HandTransport, Room
from tests.support.net.net import framed


class HandRange(FileRange):
    """A range of which `ready` bytes are in the page cache, and more when the test says so."""

    def __init__(self, size: int, ready: int | None = None) -> None:
        self.sendable = False
        self.size = self.left = size
        self.ready = size if ready is None else ready
        self.problem: Exception | None = None
        self.fetches = 0
        self._done: Callable[[], None] = lambda: None

    def __len__(self) -> int:
        return self.size

    def take(self, into: memoryview) -> int:
        """Give what is ready."""
        if self.problem is not None:
            raise self.problem
        size = min(len(into), self.left, self.ready)
        into[:size] = b"r" * size
        self.left -= size
        self.ready -= size
        return size

    def fetch(self, done: Callable[[], None]) -> None:
        """Wait for `comes`."""
        self.fetches += 1
        self._done = done

    def comes(self, size: int) -> None:
        """So many bytes more are in the page cache."""
        self.ready += size
        self._done()


def asked(room: Room, what: bytes, *ranges: HandRange) -> Client:
    """A client that has asked for the ranges, one request each."""
    client = room.client()
    room.sessions[-1].ranges = list(ranges)
    client.sends(framed(what) * len(ranges))
    return client


def test_what_is_around_a_range_is_sent_around_it_and_what_is_behind_it_waits() -> None:
    room = Room()
    cold = HandRange(10, ready=4)
    client = asked(room, b"range", cold, HandRange(3))
    assert client.transport.written == b"headrrrr"
    client.sends(framed(b"next"))
    assert cold.fetches == 1
    cold.comes(6)
    room.clock.advance()
    assert client.transport.written == b"head" + b"r" * 10 + b"tail" + b"headrrrtail" + framed(
        b"next"
    )


def test_a_turn_ends_with_the_piece_that_makes_it_two_mebibytes() -> None:
    assert TURN_BYTES_MAX % PIECE_BYTES == 0
    room = Room()
    client = asked(room, b"bare", HandRange(2 * TURN_BYTES_MAX + 1))
    assert len(client.transport.written) == TURN_BYTES_MAX
    room.clock.advance()
    assert len(client.transport.written) == 2 * TURN_BYTES_MAX + 1


@pytest.mark.parametrize(("size", "held"), [(400, False), (401, True)])
def test_more_unsent_than_the_bound_holds_requests_back(size: int, held: bool) -> None:
    room = Room(connection_answer_bytes_max=400)
    client = asked(room, b"bare", HandRange(size, ready=0))
    assert (client.answers.write_blocked_since is not None) is held
    client.sends(framed(b"next"))
    assert (room.sessions[0].frames == [b"bare"]) is held


@pytest.mark.parametrize(("left", "held"), [(100, False), (101, True)])
def test_held_requests_go_on_when_a_quarter_of_the_bound_is_unsent(left: int, held: bool) -> None:
    room = Room(connection_answer_bytes_max=400)
    cold = HandRange(401, ready=0)
    client = asked(room, b"bare", cold)
    client.sends(framed(b"next"))
    assert room.sessions[0].frames == [b"bare"]
    cold.comes(401 - left)
    room.clock.advance()
    assert len(client.transport.written) == 401 - left
    assert (room.sessions[0].frames == [b"bare"]) is held


def test_what_the_transport_holds_counts_as_unsent() -> None:
    for size, held in ((300, False), (301, True)):
        room = Room(connection_answer_bytes_max=400)
        client = room.client()
        client.transport.buffered = 100
        room.sessions[0].ranges = [HandRange(size)]
        client.sends(framed(b"bare"))
        assert client.transport.written == b""
        assert (client.answers.write_blocked_since is not None) is held


def test_a_range_waits_for_the_transports_word_that_it_has_sent_all() -> None:
    room = Room(connection_answer_bytes_max=400)
    client = room.client()
    client.transport.buffered = 1
    room.sessions[0].ranges = [HandRange(10)]
    client.sends(framed(b"bare"))
    assert (client.transport.written, client.transport.high) == (b"", 0)
    client.transport.buffered = 0
    client.connection.resume_writing()
    assert (client.transport.written, client.transport.high) == (b"", 400)
    room.clock.advance()
    assert client.transport.written == b"r" * 10


def test_a_connection_that_ends_sends_the_range_it_has_begun_and_reads_no_more() -> None:
    room = Room()
    cold = HandRange(10, ready=0)
    client = asked(room, b"range", cold)
    client.connection.close()
    assert (client.transport.ended, client.transport.reads) == ("", False)
    cold.comes(10)
    assert client.transport.written == b"head" + b"r" * 10 + b"tail"
    assert client.transport.ended == "closed"


def test_a_range_of_a_client_that_has_gone_is_forgotten() -> None:
    room = Room()
    cold = HandRange(10, ready=0)
    client = asked(room, b"bare", cold)
    client.leaves()
    cold.comes(10)
    assert (client.transport.written, cold.left) == (b"", 10)


@pytest.mark.parametrize(
    ("problem", "ended", "words"),
    [
        (CorruptLogError("the checksum"), "aborted", "dropping the connection: the checksum"),
        (KeyError("k"), "aborted", "an answer met a bug of Headrace"),
        (InvariantError("1 is 2"), "", ""),
    ],
)
def test_a_range_that_cannot_be_read_ends_its_connection_and_a_broken_invariant_the_broker(
    problem: Exception, ended: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    room = Room()
    broken = HandRange(10)
    broken.problem = problem
    client = asked(room, b"range", broken)
    assert client.transport.ended == ended
    assert room.fatal == ([] if ended else [problem])
    if words:
        assert f"10.0.0.1 on PLAINTEXT: {words}" in caplog.text


# answers that fail, and what else a connection does in passing


@pytest.mark.parametrize("problem", [CorruptLogError("gone"), InvariantError("1 is 2")])
def test_an_answer_that_will_never_be_there_ends_its_connection_or_the_broker(
    problem: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    room = Room()
    client = room.client()
    client.sends(framed(b"wait"))
    room.sessions[0].pending[0].fail(problem)
    broken = isinstance(problem, InvariantError)
    assert room.fatal == ([problem] if broken else [])
    assert client.transport.ended == ("" if broken else "closed")
    assert ("10.0.0.1 on PLAINTEXT: closing the connection" in caplog.text) is not broken


def test_where_what_a_pass_waits_for_fails_none_of_its_answers_leaves() -> None:
    room = Room()
    client = room.client()
    unwritten = Pending()
    room.sessions[0].unwritten = unwritten
    client.sends(framed(b"first"))
    unwritten.fail(CorruptLogError("not written"))
    room.clock.advance()
    assert (client.transport.written, client.transport.ended) == (b"", "closed")


def test_a_plain_request_costs_no_other_turn_and_who_asks_no_more_gets_no_more() -> None:
    room = Room()
    client = room.client()
    before = room.clock.timers
    client.sends(framed(b"a"))
    assert room.clock.timers == before
    assert client.transport.reads
    assert not client.connection.eof_received()


def test_a_peer_without_an_address_is_local() -> None:
    room = Room()
    client = room.client()
    assert (client.connection.address, client.connection.port) == ("10.0.0.1", 4711)
    nameless = HandTransport("")
    nameless.get_extra_info = lambda name, default=None: default  # type: ignore[method-assign]
    connection = Connection(room.table, "PLAINTEXT")
    connection.connection_made(nameless)
    assert (connection.address, connection.port) == ("local", -1)


def test_a_range_whose_file_cannot_be_read_ends_its_connection_without_a_word(
    caplog: pytest.LogCaptureFixture,
) -> None:
    room = Room()
    broken = HandRange(10)
    broken.problem = OSError(5, "Input/output error")
    assert asked(room, b"range", broken).transport.ended == "aborted"
    assert room.fatal == []
    assert caplog.text == ""


class Writes(HandTransport):
    """Notes each write by itself."""

    def __init__(self) -> None:
        super().__init__("10.0.0.1")
        self.writes: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Note it."""
        self.writes.append(bytes(data))


class Alone:
    """A connection that nobody else waits beside."""

    def go_on(self) -> None:
        """Nobody has a turn."""

    def moved(self) -> None:
        """Nobody looks."""

    def lost(self, problem: Exception) -> None:
        """Tell it to the test."""
        raise problem


def test_without_a_socket_a_range_that_could_send_itself_is_read_with_what_is_before_it() -> None:
    transport = Writes()
    outlet = Outlet(Alone(), transport, memoryview(bytearray(8)), 400)
    sendable = HandRange(10)
    sendable.sendable = True
    taken: list[int] = []
    take = sendable.take

    def noted(into: memoryview) -> int:
        taken.append(len(transport.writes))
        return take(into)

    sendable.take = noted  # type: ignore[method-assign]
    outlet.send([b"head", sendable])
    assert b"".join(transport.writes) == b"head" + b"r" * 10
    assert taken == [0, 2]
