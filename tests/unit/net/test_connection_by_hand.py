"""Connections by a clock and a transport that the test holds: deadlines, mutes, held requests."""

import pytest

from headrace.net.buffers import BufferPool
from headrace.net.limits import SCRATCH_BYTES, SWEEP_SECONDS
from headrace.net.pending import Pending
from tests.support.net.connections import Room
from tests.support.net.net import framed


def test_a_request_that_comes_drop_by_drop_is_given_up_at_its_deadline() -> None:
    room = Room(connection_request_receive_ms=10_000)
    client = room.client()
    client.sends(framed(b"first"))
    for byte in framed(b"second")[:3]:
        client.sends(bytes([byte]))
        room.clock.advance(4)
    assert client.transport.ended == "aborted"


def test_each_request_has_a_deadline_of_its_own() -> None:
    room = Room(connection_request_receive_ms=10_000)
    client = room.client()
    half = framed(b"another")[:6]
    client.sends(framed(bytes(4 * SCRATCH_BYTES)) + half)
    for _ in range(5):
        room.clock.advance(6)
        client.sends(framed(b"another")[6:] + half)
    assert client.transport.ended == ""
    assert len(room.sessions[0].frames) == 6


def test_a_longer_mute_outlasts_the_shorter_one_before_it() -> None:
    room = Room()
    client = room.client()
    client.connection.mute(1)
    client.connection.mute(3)
    client.connection.mute(2)
    client.sends(framed(b"held back"))
    room.clock.advance(2.9)
    assert room.sessions[0].frames == []
    room.clock.advance(0.2)
    assert room.sessions[0].frames == [b"held back"]


def test_requests_held_back_for_those_that_wait_go_on_once_half_of_these_are_answered() -> None:
    room = Room(connection_requests_max=4)
    client = room.client()
    session = room.sessions[0]
    client.sends(b"".join(framed(b"wait %d" % number) for number in range(6)))
    assert len(session.frames) == 4
    session.pending[0].resolve(framed(b"0"))
    room.clock.advance()
    assert len(session.frames) == 4
    session.pending[1].resolve(framed(b"1"))
    room.clock.advance()
    assert len(session.frames) == 6
    assert client.transport.written == framed(b"0") + framed(b"1")


def test_the_buffer_of_a_large_request_goes_back_when_it_was_not_used_for_two_sweeps() -> None:
    room = Room()
    client = room.client()
    large = framed(bytes(4 * SCRATCH_BYTES))
    client.sends(large)
    assert room.table.pool.bytes_out > SCRATCH_BYTES
    room.clock.advance(SWEEP_SECONDS)
    client.sends(large)
    room.clock.advance(SWEEP_SECONDS)
    assert room.table.pool.bytes_out > SCRATCH_BYTES
    room.clock.advance(SWEEP_SECONDS)
    assert room.table.pool.bytes_out == 0


def test_what_came_before_a_connection_was_let_in_is_handled_then() -> None:
    room = Room(delays=(5.0,))
    client = room.client()
    client.sends(framed(b"early")[:3])
    client.sends(framed(b"early")[3:] + framed(b"too"))
    assert room.sessions == []
    room.clock.advance(5)
    assert room.sessions[0].frames == [b"early", b"too"]
    assert client.transport.written == framed(b"early") + framed(b"too")
    assert client.transport.reads


def test_a_pass_that_is_refused_sends_none_of_its_answers() -> None:
    room = Room()
    client = room.client()
    client.sends(framed(b"first"))
    room.sessions[0].refuses_pass = True
    client.sends(framed(b"second") + framed(b"third"))
    assert client.transport.written == framed(b"first")
    assert client.transport.ended == "closed"


def test_so_many_connections_are_taken_as_the_bounds_say_and_no_more() -> None:
    room = Room(max_connections=3, max_connections_per_ip=2)
    clients = [room.client("10.0.0.1") for _ in range(3)]
    assert [client.transport.ended for client in clients] == ["", "", "aborted"]
    others = [room.client("10.0.0.2") for _ in range(2)]
    assert [client.transport.ended for client in others] == ["", "aborted"]
    assert (len(room.table), room.table.accepted, room.table.refused) == (3, 3, 2)
    clients[0].leaves()
    assert room.sessions[0].gone
    assert room.client("10.0.0.1").transport.ended == ""


def test_of_many_refusals_a_second_a_few_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    room = Room(max_connections=1)
    room.client()
    for _ in range(20):
        room.client()
    assert caplog.text.count("refusing") == 5
    room.clock.advance(SWEEP_SECONDS)
    room.client()
    assert caplog.text.count("refusing") == 6


def test_an_idle_connection_is_dropped_after_its_time_and_one_that_speaks_is_not() -> None:
    room = Room(connections_max_idle_ms=20_000)
    silent, speaking = room.client(), room.client()
    for client in (silent, speaking):
        client.sends(framed(b"hello"))
    for _ in range(3):
        room.clock.advance(10)
        speaking.sends(framed(b"again"))
    assert (silent.transport.ended, speaking.transport.ended) == ("aborted", "")


def test_buffers_nobody_used_for_half_a_minute_go_back_to_the_system() -> None:
    room = Room()
    pool = room.table.pool
    buffer = pool.take(100_000)
    pool.give(buffer)
    room.clock.advance(20 * SWEEP_SECONDS)
    assert pool.take(100_000) is buffer
    pool.give(buffer)
    room.clock.advance(31 * SWEEP_SECONDS)
    assert pool.take(100_000) is not buffer


def test_one_buffer_alone_is_taken_whatever_the_budget_is() -> None:
    pool = BufferPool(bytes_max=1 << 16)
    assert pool.fits(1 << 20)
    first = pool.take(1 << 15)
    assert pool.fits(1 << 15)
    assert not pool.fits((1 << 15) + 1)
    assert pool.fits(1 << 20, given_back=len(first))


def test_only_the_first_answer_counts_and_none_once_the_client_has_gone() -> None:
    pending, gone = Pending(), Pending()
    pending.resolve(b"first")
    pending.resolve(b"second")
    assert pending.parts() == b"first"
    gone.abandon()
    gone.resolve(b"late")
    assert gone.parts() is None
