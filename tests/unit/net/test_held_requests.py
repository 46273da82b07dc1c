"""When a connection's requests are held back, and when they are handled after all."""

import struct

import pytest

from headrace.model.errors import Malformed
from headrace.model.invariant import InvariantError
from headrace.net.limits import SWEEP_SECONDS
from headrace.net.pending import Pending
from tests.support.net.connections import Client, Room
from tests.support.net.net import framed

KILOBYTES_400 = framed(bytes(400_000))


def test_one_that_waits_to_be_let_in_is_not_read_even_where_the_loop_begins_to() -> None:
    room = Room(delays=(5.0,))
    client = room.client()
    assert not client.transport.reads
    client.transport.reads = True  # uvloop begins when `connection_made` has returned
    room.clock.advance()
    assert not client.transport.reads
    client.transport.reads = True
    client.sends(b"\0")
    assert not client.transport.reads
    room.clock.advance(5)
    assert client.transport.reads


def test_one_that_is_let_in_at_once_is_read_on() -> None:
    room = Room(delays=(5.0,))
    client = room.client()
    client.connection.let_in()
    room.clock.advance()
    assert client.transport.reads


def test_those_who_wait_are_let_in_one_after_the_other_each_after_its_own_delay() -> None:
    room = Room(delays=(0.5, 0.0, 2.0))
    for _ in range(3):
        room.client()
    assert len(room.sessions) == 0
    room.clock.advance(0.5)
    assert len(room.sessions) == 2
    room.clock.advance(1.9)
    assert len(room.sessions) == 2
    room.clock.advance(0.1)
    assert len(room.sessions) == 3


def test_a_transport_is_told_how_many_bytes_may_be_unsent() -> None:
    assert Room(connection_answer_bytes_max=12_345).client().transport.high == 12_345


def test_answers_are_given_up_to_the_bound_in_one_pass_and_the_rest_in_the_next_turns() -> None:
    room = Room(connection_answer_bytes_max=200)
    client = room.client()
    client.sends(framed(b"big") * 7)
    handled = room.sessions[0].frames
    assert len(handled) == 3, "200 bytes are not more than 200"
    assert client.transport.written == bytes(300)
    assert (client.transport.reads, room.table.blocked) == (False, 1)
    room.clock.advance()
    assert len(handled) == 7
    assert client.transport.written == bytes(700)
    assert (client.transport.reads, room.table.blocked) == (True, 2)


def test_what_was_sent_counts_no_more_against_the_bound() -> None:
    room = Room(connection_answer_bytes_max=200)
    client = room.client()
    for number in range(1, 6):
        client.sends(framed(b"big"))
        assert len(client.transport.written) == 100 * number
    assert room.table.blocked == 0


def test_answers_that_wait_for_another_count_against_the_bound() -> None:
    room = Room(connection_answer_bytes_max=200)
    client = room.client()
    client.sends(framed(b"wait") + framed(b"big") * 5)
    session = room.sessions[0]
    assert len(session.frames) == 1 + 3
    session.pending[0].resolve(b"first")
    room.clock.advance()
    assert client.transport.written == b"first" + bytes(500)


def test_while_the_client_takes_nothing_nothing_is_handled() -> None:
    room = Room()
    client = room.client()
    client.connection.pause_writing()
    client.sends(framed(b"later"))
    assert room.sessions[0].frames == []
    assert not client.transport.reads
    client.connection.resume_writing()
    room.clock.advance()
    assert room.sessions[0].frames == [b"later"]
    assert client.transport.reads


def test_an_answer_that_comes_during_a_mute_lets_nothing_be_handled_before_its_end() -> None:
    room = Room()
    client = room.client()
    client.sends(framed(b"wait"))
    client.connection.mute(1)
    client.sends(framed(b"next"))
    session = room.sessions[0]
    session.pending[0].resolve(b"answer")
    room.clock.advance(0.5)
    assert client.transport.written == b"answer"
    assert session.frames == [b"wait"]
    room.clock.advance(0.5)
    assert session.frames == [b"wait", b"next"]
    assert client.transport.reads


def test_nothing_leaves_and_nothing_is_handled_before_what_the_pass_waits_for_is_done() -> None:
    room = Room()
    client = room.client()
    session, unwritten = room.sessions[0], Pending()
    session.unwritten = unwritten
    client.sends(framed(b"alone") + framed(b"next"))
    session.pending[0].resolve(b"answer")
    room.clock.advance()
    assert (session.frames, client.transport.written) == ([b"alone"], b"")
    assert not client.transport.reads
    unwritten.resolve(None)
    room.clock.advance()
    assert session.frames == [b"alone", b"next"]
    assert client.transport.written == b"answer" + framed(b"next")
    assert client.transport.reads


@pytest.mark.parametrize(("waiting_max", "goes_on_at"), [(4, 2), (5, 2), (6, 3)])
def test_held_requests_go_on_when_half_as_many_wait_as_may(
    waiting_max: int, goes_on_at: int
) -> None:
    room = Room(connection_requests_max=waiting_max)
    client = room.client()
    session = room.sessions[0]
    client.sends(framed(b"wait") * (waiting_max + 1))
    for left in range(waiting_max - 1, goes_on_at - 1, -1):
        assert len(session.frames) == waiting_max
        session.pending[waiting_max - 1 - left].resolve(b"x")
        room.clock.advance()
    assert len(session.frames) == waiting_max + 1


# memory for large requests


def waiting_for_memory(room: Room) -> tuple[Client, Client]:
    """One that holds the memory for large requests, and one that waits for it."""
    holder, waiting = room.client("10.0.0.1"), room.client("10.0.0.2")
    holder.sends(KILOBYTES_400)
    waiting.sends(KILOBYTES_400[:100_000])
    assert (holder.transport.reads, waiting.transport.reads) == (True, False)
    return holder, waiting


def tight() -> Room:
    """A room with memory for one large request."""
    return Room(queued_max_request_bytes=700_000)


def test_who_waits_for_memory_goes_on_when_its_holder_leaves() -> None:
    room = tight()
    holder, waiting = waiting_for_memory(room)
    holder.leaves()
    assert waiting.transport.reads
    waiting.sends(KILOBYTES_400[100_000:])
    assert len(room.sessions[1].frames) == 1


def test_who_waits_for_memory_goes_on_in_the_sweep_that_frees_it() -> None:
    room = tight()
    _, waiting = waiting_for_memory(room)
    room.clock.advance(SWEEP_SECONDS)
    assert not waiting.transport.reads
    room.clock.advance(SWEEP_SECONDS)
    assert waiting.transport.reads


def test_several_who_wait_for_memory_are_served_in_their_order() -> None:
    room = tight()
    holder, first = waiting_for_memory(room)
    second = room.client("10.0.0.3")
    second.sends(KILOBYTES_400[:100_000])
    holder.leaves()
    assert (first.transport.reads, second.transport.reads) == (True, False)
    first.leaves()
    assert second.transport.reads


def test_who_waited_for_memory_and_left_keeps_nobody_waiting() -> None:
    room = tight()
    holder, first = waiting_for_memory(room)
    second = room.client("10.0.0.3")
    second.sends(KILOBYTES_400[:100_000])
    first.leaves()
    holder.leaves()
    assert second.transport.reads
    second.leaves()
    assert room.table.pool.bytes_out == 0


def test_memory_and_a_mute_must_both_be_over() -> None:
    for mute_first in (True, False):
        room = tight()
        holder, waiting = waiting_for_memory(room)
        waiting.connection.mute(0.5)
        if mute_first:
            room.clock.advance(0.5)
            assert not waiting.transport.reads
            holder.leaves()
        else:
            holder.leaves()
            assert not waiting.transport.reads
            room.clock.advance(0.5)
        assert waiting.transport.reads


def test_a_client_that_leaves_while_its_request_is_handled_leaves_nothing_behind() -> None:
    room = Room()
    client = room.client()
    room.sessions[0].in_frame = client.leaves
    client.sends(KILOBYTES_400)
    assert len(room.sessions[0].frames) == 1
    assert room.sessions[0].gone
    assert (len(room.table), room.table.pool.bytes_out) == (0, 0)
    assert client.transport.written == b""


def test_a_client_that_leaves_in_the_middle_of_a_request_leaves_nothing_behind() -> None:
    room = Room()
    client = room.client()
    client.sends(KILOBYTES_400[:100_000])
    assert room.table.pool.bytes_out > 0
    client.leaves()
    assert (len(room.table), room.table.pool.bytes_out) == (0, 0)


# ends


def test_a_broken_invariant_in_a_request_is_fatal_and_nothing_more_is_sent() -> None:
    room = Room()
    client = room.client()

    def broken() -> None:
        raise InvariantError("1 is not 2")

    room.sessions[0].in_frame = broken
    client.sends(framed(b"first") + framed(b"second"))
    assert [str(one) for one in room.fatal] == ["1 is not 2"]
    assert client.transport.written == b""


@pytest.mark.parametrize(
    ("limit", "known", "longest"),
    [(1000, True, 1000), (1000, False, 1000), (1 << 20, False, 1 << 19)],
)
def test_a_request_of_the_greatest_length_is_taken_and_no_longer_one(
    limit: int, known: bool, longest: int
) -> None:
    for size in (longest, longest + 1):
        room = Room(socket_request_max_bytes=limit)
        client = room.client()
        client.connection.authenticated = known
        client.sends(struct.pack(">i", size))
        assert client.transport.ended == ("" if size == longest else "closed")


def test_why_a_connection_is_closed_is_said_with_its_address_and_listener(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for problem, level, words in (
        (Malformed("no request"), "WARNING", "closing the connection: no request"),
        (KeyError("k"), "ERROR", "closing the connection: a request met a bug of Headrace"),
    ):
        caplog.clear()
        room = Room()
        client = room.client()

        def fails(problem: Exception = problem) -> None:
            raise problem

        room.sessions[0].in_frame = fails
        client.sends(framed(b"x"))
        (record,) = caplog.records
        assert record.levelname == level
        assert record.getMessage().startswith(f"10.0.0.1 on PLAINTEXT: {words}")
        assert client.transport.ended == "closed"


def test_once_the_table_is_quiet_what_was_taken_is_answered_and_nothing_more_is_read() -> None:
    room = Room()
    client = room.client()
    client.sends(framed(b"alone") + framed(b"behind"))
    room.table.quiesce()
    assert not client.transport.reads
    room.sessions[0].pending[0].resolve(b"answer")
    room.clock.advance()
    assert client.transport.written == b"answer"
    assert room.sessions[0].frames == [b"alone"]
    assert not client.transport.reads
    assert room.clock.timers == 0
    late = room.client()
    assert late.transport.ended == "aborted"


def test_a_closed_table_sends_what_is_ready_and_lets_nobody_in() -> None:
    room = Room(delays=(0.0, 5.0, 0.0), too_soon=(0.0,))
    client, queued = room.client(), room.client()
    client.sends(framed(b"wait"))
    room.sessions[0].pending[0].resolve(b"answer")
    room.table.close()
    assert (client.transport.written, client.transport.ended) == (b"answer", "closed")
    assert queued.transport.ended == "closed"
    assert len(room.sessions) == 1
