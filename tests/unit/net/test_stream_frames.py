"""Frames that a session tells apart itself: AMQP's framing, cut anywhere, mixed, lying, late."""

import random

import pytest

from headrace.config.connection_limits import ConnectionLimits
from headrace.net.limits import AUTHENTICATION_FRAME_BYTES_MAX, SCRATCH_BYTES
from tests.support.amqp.echo import HEADER, AmqpRoom, amqp_frame
from tests.support.net.connections import Client

PAYLOADS = [b"", b"a", b"method", bytes(range(256)) * 3, b"\xce" * 40, b"last"]
SENT = HEADER + b"".join(map(amqp_frame, PAYLOADS))


def spoil(client: Client) -> None:
    """Have others receive into the memory that all connections share, and this one nothing."""
    client.connection.get_buffer(-1)
    scratch = client.connection._inbox._scratch
    scratch[:] = b"\xee" * len(scratch)


@pytest.mark.parametrize("cut", range(len(SENT) + 1))
def test_frames_cut_at_any_byte_come_whole_and_in_order(cut: int) -> None:
    room = AmqpRoom()
    client = room.client()
    for part in (SENT[:cut], SENT[cut:]):
        client.sends(part)
        spoil(client)
    assert room.echoes[0].taken == PAYLOADS
    assert client.transport.written == SENT[len(HEADER) :]
    assert room.table.pool.bytes_out == 0


def test_frames_that_come_byte_by_byte_come_whole() -> None:
    room = AmqpRoom()
    client = room.client()
    for at in range(len(SENT)):
        client.sends(SENT[at : at + 1])
        spoil(client)
    assert room.echoes[0].taken == PAYLOADS


@pytest.mark.parametrize("seed", range(30))
def test_many_connections_that_share_a_buffer_keep_their_frames_apart(seed: int) -> None:
    chance = random.Random(seed)
    room = AmqpRoom()
    sizes = [0, 1, 60, 4096, 65_000, SCRATCH_BYTES - 8, SCRATCH_BYTES - 7, 3 * SCRATCH_BYTES]
    payloads, left, clients = [], [], [room.client() for _ in range(3)]
    for echo in room.echoes:
        echo.frame_max = 4 * SCRATCH_BYTES
        payloads.append([chance.randbytes(chance.choice(sizes)) for _ in range(12)])
        left.append(HEADER + b"".join(map(amqp_frame, payloads[-1])))
    while any(left):
        number = chance.randrange(len(left))
        size = chance.choice((1, 5, 8, 1000, 70_000, 500_000))
        clients[number].sends(left[number][:size])
        left[number] = left[number][size:]
        spoil(clients[chance.randrange(len(left))])
    assert [echo.taken for echo in room.echoes] == payloads
    for client in clients:
        client.leaves()
    assert room.table.pool.bytes_out == 0


def test_all_whole_frames_of_a_read_are_handed_over_at_once_and_what_they_push_is_one_write() -> (
    None
):
    room = AmqpRoom()
    client = room.client()
    client.sends(HEADER + b"".join(amqp_frame(b"%d" % number) for number in range(500)) + b"\1\0")
    assert (len(room.echoes[0].taken), room.echoes[0].calls) == (500, 1)
    assert client.transport.write_calls == 1


def test_what_is_left_of_a_frame_does_not_make_the_next_read_smaller() -> None:
    room = AmqpRoom()
    client = room.client()
    client.sends(HEADER + amqp_frame(b"whole") + amqp_frame(b"cut")[:5])
    assert len(client.connection.get_buffer(-1)) == SCRATCH_BYTES - 5
    client.sends(amqp_frame(b"cut")[5:] + amqp_frame(b"more") * 100)
    assert (len(room.echoes[0].taken), room.echoes[0].calls) == (102, 2)


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"GET / HTTP/1.1\r\n", "not AMQP"),
        (b"AMQP\0\0\x09\x02", "not AMQP"),
        (HEADER + amqp_frame(b"fine") + amqp_frame(b"bad")[:-1] + b"\xcd", "without its end"),
        (HEADER + amqp_frame(b"fine") + b"\1\0\0\0\2\0\0", "at most 131072"),
        (HEADER + amqp_frame(b"fine") + b"\xff" * 7, "at most 131072"),
    ],
)
def test_what_is_no_frame_ends_its_connection_only_behind_what_was_pushed(
    sent: bytes, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    room = AmqpRoom()
    client, other = room.client(), room.client()
    client.sends(sent)
    assert client.transport.ended == "closed"
    assert said in caplog.text
    assert len(caplog.records) == 1
    assert client.transport.written == (amqp_frame(b"fine") if b"fine" in sent else b"")
    other.sends(SENT)
    assert other.transport.written == SENT[len(HEADER) :]


@pytest.mark.parametrize(("listener", "fits"), [("AMQP", False), ("PLAINTEXT", True)])
def test_who_has_not_authenticated_is_bound_as_everywhere(
    listener: str, fits: bool, caplog: pytest.LogCaptureFixture
) -> None:
    room = AmqpRoom(single=ConnectionLimits(begin_unknown=frozenset({"AMQP"})))
    client = room.client(listener=listener)
    room.echoes[0].frame_max = 1 << 30
    client.sends(HEADER + amqp_frame(bytes(AUTHENTICATION_FRAME_BYTES_MAX))[:100])
    assert client.transport.ended == ("" if fits else "closed")
    assert ("the limit is 524288 bytes" in caplog.text) is not fits


def test_no_session_may_take_more_than_the_configuration_allows() -> None:
    room = AmqpRoom(socket_request_max_bytes=1000)
    client = room.client()
    client.sends(HEADER + amqp_frame(bytes(1000 - 8))[:100])
    assert client.transport.ended == ""
    client = room.client()
    client.sends(HEADER + amqp_frame(bytes(1001 - 8))[:100])
    assert client.transport.ended == "closed"


def test_a_frame_that_comes_drop_by_drop_is_given_up_at_its_deadline() -> None:
    room = AmqpRoom(connection_request_receive_ms=10_000)
    client = room.client()
    client.sends(HEADER)
    for byte in amqp_frame(b"second")[:3]:
        client.sends(bytes([byte]))
        room.clock.advance(4)
    assert client.transport.ended == "aborted"


def test_the_protocols_header_has_the_deadline_of_a_first_request() -> None:
    room = AmqpRoom(connection_first_request_ms=5_000)
    silent, begun = room.client(), room.client()
    begun.sends(HEADER)
    room.clock.advance(7)
    assert (silent.transport.ended, begun.transport.ended) == ("aborted", "")


def test_a_muted_connection_hands_nothing_over_until_its_time_is_over() -> None:
    room = AmqpRoom()
    client = room.client()
    client.sends(HEADER)
    client.connection.mute(3)
    client.sends(amqp_frame(b"held back") + amqp_frame(b"cut")[:4])
    spoil(client)
    assert room.echoes[0].taken == []
    assert not client.transport.reads
    room.clock.advance(3.1)
    assert (room.echoes[0].taken, client.transport.reads) == ([b"held back"], True)
    client.sends(amqp_frame(b"cut")[4:])
    assert room.echoes[0].taken == [b"held back", b"cut"]


def test_a_large_frame_waits_for_the_memory_of_others() -> None:
    room = AmqpRoom(queued_max_request_bytes=1 << 20)
    clients = [room.client() for _ in range(2)]
    large = amqp_frame(bytes(600_000))
    for client, echo in zip(clients, room.echoes, strict=True):
        echo.frame_max = 1 << 20
        client.sends(HEADER + large[:100_000])
    assert [client.transport.reads for client in clients] == [True, False]
    clients[0].sends(large[100_000:])
    clients[0].leaves()
    assert clients[1].transport.reads
    clients[1].sends(large[100_000:])
    assert len(room.echoes[1].taken) == 1


def test_what_came_before_a_connection_was_let_in_is_handed_over_then() -> None:
    room = AmqpRoom(delays=(5.0,))
    client = room.client()
    client.sends(SENT[:3])
    client.sends(SENT[3:-5])
    room.clock.advance(5)
    client.sends(SENT[-5:])
    assert room.echoes[0].taken == PAYLOADS
