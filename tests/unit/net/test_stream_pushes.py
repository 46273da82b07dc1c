"""What a session pushes: in order, gathered, after the pass's writes, bounded by who reads it."""

from math import inf
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.net.limits import UNREAD_FACTOR_MAX
from headrace.net.pending import Pending
from headrace.net.write_pass import WritePass
from tests.support.amqp.echo import HEADER, AmqpEcho, AmqpRoom, amqp_frame
from tests.support.net.connections import Client

HIGH = 65_536


def opened(**settings: Any) -> tuple[AmqpRoom, Client, AmqpEcho]:
    """A connection that has sent its header."""
    room = AmqpRoom(**{"connection_answer_bytes_max": HIGH, **settings})
    client = room.client()
    client.sends(HEADER)
    return room, client, room.echoes[0]


def test_what_is_pushed_in_one_turn_of_the_loop_leaves_in_its_order_in_one_write() -> None:
    room, client, echo = opened()
    echo.stream.push(b"one")
    echo.stream.push([b"two", memoryview(b"three")])
    echo.stream.push(b"four")
    assert client.transport.written == b""
    room.clock.advance()
    assert client.transport.written == b"onetwothreefour"
    assert client.transport.write_calls == 1


def test_what_is_pushed_in_a_pass_leaves_with_it() -> None:
    _, client, echo = opened()
    echo.stream.push(b"before")
    client.sends(amqp_frame(b"x"))
    assert client.transport.written == b"before" + amqp_frame(b"x")


def test_guarded_pushes_leave_while_their_guard_holds() -> None:
    room, client, echo = opened()
    echo.stream.push(b"guarded")
    echo.stream.guard(lambda: True)
    room.clock.advance()
    assert client.transport.written == b"guarded"
    echo.stream.push(b" later")
    room.clock.advance()
    assert client.transport.written == b"guarded later"


def test_connection_ends_without_pushes_whose_guard_does_not_hold_any_more() -> None:
    room, client, echo = opened()
    echo.stream.push(b"guarded")
    echo.stream.guard(lambda: False)
    echo.stream.push(b"another turn")
    echo.stream.guard(lambda: True)
    room.clock.advance()
    assert client.transport.written == b""
    assert client.transport.ended == "aborted"


def test_pushes_of_a_pass_wait_for_its_writes_and_hold_the_next_frames() -> None:
    room, client, echo = opened()
    written = echo.unwritten = Pending()
    client.sends(amqp_frame(b"append") + amqp_frame(b"cut")[:3])
    echo.stream.push(b"later")
    room.clock.advance(1)
    assert client.transport.written == b""
    assert not client.transport.reads, "what comes behind waits"
    assert not echo.stream.takes_more()
    written.resolve(None)
    room.clock.advance()
    assert client.transport.written == amqp_frame(b"append") + b"later"
    assert (echo.rooms, client.transport.reads) == (1, True)
    client.sends(amqp_frame(b"cut")[3:])
    assert echo.taken == [b"append", b"cut"]


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("promised", [False, True])
def test_where_a_pass_failed_to_write_what_counts_on_it_never_leaves(
    later: bool, promised: bool
) -> None:
    room, client, echo = opened()
    told: list[Any] = []

    def end(done: Any) -> bool | None:
        told.append(done)
        return None if later else True

    writes: Any = SimpleNamespace(begin=lambda: told.append("begun"), end=end)
    echo.writes = WritePass(writes)
    echo.writes.begin()
    if promised:
        echo.writes.promise()
    client.sends(amqp_frame(b"append"))
    if later:
        assert client.transport.written == b""
        told[1](True)
    room.clock.advance()
    assert told[0] == "begun"
    assert client.transport.written == (b"" if promised else amqp_frame(b"append"))
    assert client.transport.ended == ("closed" if promised else "")


def test_a_session_is_told_when_its_client_takes_no_more_and_when_it_does_again() -> None:
    room, client, echo = opened()
    assert echo.stream.takes_more()
    client.connection.pause_writing()
    assert not echo.stream.takes_more()
    room.clock.advance(1)
    assert echo.rooms == 0
    echo.on_room = lambda: echo.stream.push(b"the rest")
    client.connection.resume_writing()
    room.clock.advance()
    assert (echo.rooms, client.transport.written) == (1, b"the rest")
    client.connection.pause_writing()
    client.connection.resume_writing()
    room.clock.advance()
    assert echo.rooms == 1, "it had not asked"


def test_session_is_told_of_room_once_the_table_is_quiet_and_is_given_no_frames() -> None:
    room, client, echo = opened()
    client.connection.pause_writing()
    assert not echo.stream.takes_more()
    room.table.quiesce()
    client.sends(amqp_frame(b"late"))
    rooms = echo.rooms
    client.connection.resume_writing()
    room.clock.advance()
    assert (echo.rooms, echo.taken) == (rooms + 1, [])


@pytest.mark.parametrize(("size", "takes_more"), [(HIGH, True), (HIGH + 1, False)])
def test_what_is_not_handed_over_yet_is_bounded_too(size: int, takes_more: bool) -> None:
    room, client, echo = opened()
    echo.stream.push(bytes(size))
    assert echo.stream.takes_more() is takes_more
    room.clock.advance()
    assert len(client.transport.written) == size
    assert echo.rooms == (not takes_more), "a socket that took all at once never says so"


def test_a_delivery_of_one_pass_asks_for_room_in_the_next_turn() -> None:
    room, client, echo = opened()
    echo.while_room = True
    client.sends(b"".join(amqp_frame(bytes(40_000)) for _ in range(6)))
    assert len(echo.taken) == 2
    room.clock.advance()
    assert len(echo.taken) == 6
    assert client.transport.reads


def test_frames_are_handed_over_while_the_client_does_not_read_for_it_may_send_first() -> None:
    _, client, echo = opened()
    client.connection.pause_writing()
    client.sends(amqp_frame(bytes(50_000)))
    assert len(echo.taken) == 1
    client.sends(amqp_frame(bytes(50_000)))
    assert len(echo.taken) == 2
    assert client.transport.reads


def test_answers_to_who_does_not_read_are_bounded_then_frames_wait() -> None:
    room, client, echo = opened()
    client.connection.pause_writing()
    for _ in range(2):
        client.sends(amqp_frame(bytes(40_000)))
    client.sends(amqp_frame(b"waits"))
    room.clock.advance(1)
    assert len(echo.taken) == 2
    assert not client.transport.reads
    client.connection.resume_writing()
    room.clock.advance()
    assert echo.taken[2:] == [b"waits"]
    assert client.transport.reads


def test_whole_frames_left_over_for_want_of_room_wait_for_it() -> None:
    room, client, echo = opened()
    echo.while_room = True
    client.connection.pause_writing()
    client.sends(amqp_frame(b"one") + amqp_frame(b"two"))
    calls = echo.calls
    room.clock.advance(5)
    assert (echo.taken, echo.calls) == ([], calls), "nobody asks again and again"
    client.connection.resume_writing()
    room.clock.advance()
    assert echo.taken == [b"one", b"two"]


def test_a_session_that_pushes_on_and_on_loses_its_connection_with_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    _, client, echo = opened()
    client.connection.pause_writing()
    for _ in range(UNREAD_FACTOR_MAX):
        echo.stream.push(bytes(HIGH))
    assert client.transport.ended == ""
    for _ in range(3):
        echo.stream.push(b"1")
    assert client.transport.ended == "aborted"
    assert caplog.text.count("reads too slowly") == 1


def test_what_was_pushed_without_room_is_forgotten_once_there_is() -> None:
    room, client, echo = opened()
    for _ in range(3):
        client.connection.pause_writing()
        for _ in range(UNREAD_FACTOR_MAX):
            echo.stream.push(bytes(HIGH))
        client.connection.resume_writing()
        room.clock.advance()
        echo.stream.push(b"small")
        room.clock.advance()
    assert client.transport.ended == ""


@pytest.mark.parametrize("takes", [True, False])
def test_a_slow_reader_is_dropped_only_where_it_takes_nothing_at_all(takes: bool) -> None:
    room, client, echo = opened(connection_slow_reader_ms=5_000)
    client.transport.buffered = 60_000
    client.connection.pause_writing()
    for _ in range(6):
        room.clock.advance(2)
        client.transport.buffered -= 1000 if takes else 0
        client.transport.buffered += 1500
        echo.stream.push(bytes(1500))  # what is sent meanwhile says nothing of the client
    assert client.transport.ended == ("" if takes else "aborted")


def test_frames_left_over_come_again_in_the_next_turn() -> None:
    room, client, echo = opened()
    echo.one_at_a_time = True
    client.sends(b"".join(amqp_frame(b"%d" % number) for number in range(4)))
    assert echo.taken == [b"0"]
    for _ in range(4):
        room.clock.advance()
    assert echo.taken == [b"0", b"1", b"2", b"3"]
    assert client.transport.reads


def test_a_session_that_holds_is_handed_nothing_until_it_goes_on() -> None:
    room, client, echo = opened()
    client.sends(amqp_frame(b"hold") + amqp_frame(b"behind") + amqp_frame(b"cut")[:3])
    room.clock.advance(5)
    assert echo.taken == [b"hold"]
    assert client.transport.written == amqp_frame(b"hold"), "what it pushed leaves all the same"
    assert client.transport.reads is False
    echo.stream.go_on()
    room.clock.advance()
    assert (echo.taken, client.transport.reads) == ([b"hold", b"behind"], True)
    client.sends(amqp_frame(b"cut")[3:])
    assert echo.taken[2:] == [b"cut"]


def test_a_session_may_hold_outside_of_a_pass() -> None:
    room, client, echo = opened()
    echo.stream.hold()
    assert not client.transport.reads
    client.sends(amqp_frame(b"came all the same"))
    assert echo.taken == []
    echo.stream.go_on()
    room.clock.advance()
    assert echo.taken == [b"came all the same"]


@pytest.mark.parametrize("unwritten", [False, True])
def test_the_end_comes_behind_all_that_was_pushed(unwritten: bool) -> None:
    room, client, echo = opened()
    written = echo.unwritten = Pending() if unwritten else None
    client.sends(amqp_frame(b"x") + amqp_frame(b"end"))
    echo.stream.push(b"too late")
    room.clock.advance()
    if written is not None:
        assert client.transport.ended == ""
        written.resolve(None)
        room.clock.advance()
    assert client.transport.written == amqp_frame(b"x") + amqp_frame(b"end")
    assert client.transport.ended == "closed"


def test_a_session_may_end_outside_of_a_pass() -> None:
    room, client, echo = opened()
    echo.stream.push(b"farewell")
    echo.stream.end()
    room.clock.advance()
    assert (client.transport.written, client.transport.ended) == (b"farewell", "closed")


def test_what_is_pushed_to_who_is_gone_is_nothing() -> None:
    room, client, echo = opened()
    client.leaves()
    assert echo.gone
    echo.stream.push(b"anybody?")
    echo.stream.go_on()
    echo.stream.end()
    room.clock.advance()
    assert client.answers.out == []
    assert client.transport.written == b""


def test_a_session_with_heartbeats_chooses_how_long_nothing_may_happen() -> None:
    room = AmqpRoom(connections_max_idle_ms=20_000)
    clients = [room.client() for _ in range(3)]
    for client in clients:
        client.sends(HEADER)
    room.echoes[0].connection.idle_seconds_max = inf
    room.echoes[1].connection.idle_seconds_max = 90.0
    room.clock.advance(80)
    assert [client.transport.ended for client in clients] == ["", "", "aborted"]
    room.clock.advance(20)
    assert [client.transport.ended for client in clients] == ["", "aborted", "aborted"]


def test_it_is_known_when_something_last_came_and_when_something_was_last_sent() -> None:
    room, client, echo = opened()
    connection, began = echo.connection, room.clock.monotonic()
    room.clock.advance(3)
    echo.stream.push(b"heartbeat")
    room.clock.advance(1)
    client.sends(b"\x08\0\0")
    assert connection.last_sent - began == 3
    assert connection.last_received - began == 4


def test_bytes_count_once_for_each_read_and_each_write() -> None:
    room, client, echo = opened()
    frame = amqp_frame(b"x")
    client.sends(frame + frame[:3])
    client.sends(frame[3:])
    echo.stream.push([b"one", memoryview(b"two")])
    room.clock.advance()
    traffic = client.connection.traffic
    assert (traffic.reads, traffic.received_bytes) == (3, len(HEADER) + 2 * len(frame))
    assert (traffic.writes, traffic.sent_bytes) == (3, 2 * len(frame) + 6)
    assert traffic.sent_bytes == len(client.transport.written)
    echo.stream.push(b"late")
    client.transport.abort()
    room.clock.advance()
    assert traffic.sent_bytes == len(client.transport.written), "what is dropped is not sent"
