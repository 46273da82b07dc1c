"""TLS under a connection: a client in memory, threads that the test holds, a clock too."""

import logging
import random
import ssl
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from headrace.net import limits
from headrace.security.identity import ANONYMOUS
from tests.support.security.certificates import Authority
from tests.support.security.tls_kit import Client, Scene

HANDSHAKE_SECONDS = 10.0
"""By default."""


def ended(client: Client) -> str:
    """How the connection ended, if it did."""
    return client.transport.ended


def reads(client: Client) -> bool:
    """Whether more may come."""
    return client.transport.reads


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Who signs this file's certificates."""
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> Path:
    """The server's key and certificate."""
    return authority.sign().both


@pytest.fixture
def make(authority: Authority, server: Path) -> Callable[..., Scene]:
    """Make a listener, with bounds if the test wants others."""
    return partial(Scene, authority, server)


def test_what_was_encrypted_comes_out_as_it_was_both_ways(make: Callable[..., Scene]) -> None:
    client = make().connect()
    above = client.shake_hands()
    data = random.Random(1).randbytes(700_000)
    client.push(client.send(data))
    assert above.received == data
    above.transport.write(data)
    above.transport.writelines([b"a", b"b" * 300_000, memoryview(b"c")])
    assert client.received() == data + b"a" + b"b" * 300_000 + b"c"
    assert above.transport.get_extra_info("principal") == ANONYMOUS


def test_nothing_is_made_above_before_the_handshake_is_done(make: Callable[..., Scene]) -> None:
    scene = make()
    client = scene.connect()
    client.push(client.hello())
    assert len(scene.jobs) == 1
    assert client.transport.reads is False  # a thread has it
    assert not scene.made
    scene.work()
    assert reads(client)
    assert not scene.made


def test_threads_get_whole_records_only(make: Callable[..., Scene]) -> None:
    scene = make()
    client = scene.connect()
    hello = client.hello()
    for at in range(len(hello) - 1):
        client.push(hello[at : at + 1])
    assert not scene.jobs
    client.push(hello[-1:])
    assert len(scene.jobs) == 1


def test_what_comes_right_behind_the_handshake_is_not_lost(make: Callable[..., Scene]) -> None:
    scene = make()
    client = scene.connect()
    client.push(client.hello())
    scene.work()
    client.take()
    client.tls.do_handshake()
    last = client.send(b"first request")  # with what ends the handshake before it
    client.push(last[:-3])
    scene.work()
    assert scene.made[0].received == b""
    client.push(last[-3:])
    assert scene.made[0].received == b"first request"


def test_half_a_handshake_and_silence_ends(
    make: Callable[..., Scene], caplog: pytest.LogCaptureFixture
) -> None:
    scene = make()
    client = scene.connect()
    client.push(client.hello()[:40])
    scene.clock.advance(HANDSHAKE_SECONDS - 0.1)
    assert not ended(client)
    scene.clock.advance(0.2)
    assert ended(client)
    assert len(scene.handshakes) == 0
    assert "10.0.0.1 on SSL: no TLS connection: TLS handshake not complete within" in caplog.text


def test_who_reads_nothing_of_his_handshake_is_not_waited_for(make: Callable[..., Scene]) -> None:
    scene = make()
    client = scene.connect()
    client.push(client.hello()[:40])
    client.transport.buffered = 1
    scene.clock.advance(HANDSHAKE_SECONDS + 1)
    assert client.transport.ended == "aborted"


def test_a_done_handshake_has_no_deadline(make: Callable[..., Scene]) -> None:
    scene = make()
    client = scene.connect()
    client.shake_hands()
    scene.clock.advance(HANDSHAKE_SECONDS * 2)
    assert not client.transport.ended
    assert len(scene.handshakes) == 0


def test_a_crowd_of_silent_clients_keeps_nobody_out(make: Callable[..., Scene]) -> None:
    scene = make(max_connections_unauthenticated_per_ip=3)
    silent = [scene.connect() for _ in range(3)]
    client = scene.connect()
    assert [bool(one.transport.ended) for one in silent] == [True, False, False]
    client.shake_hands()
    assert not client.transport.ended
    assert len(scene.handshakes) == 2


@pytest.mark.parametrize(
    "said", [b"\0\0\0\x10\0\x12\0\3", b"GET / HTTP/1.1\r\n", b"\x16\x02\0\0\x10" + b"x" * 9]
)
def test_who_does_not_speak_tls_is_told_from_others_in_one_line(
    make: Callable[..., Scene], caplog: pytest.LogCaptureFixture, said: bytes
) -> None:
    scene = make()
    client = scene.connect()
    client.push(said)
    client.push(b"more")
    assert client.transport.ended == "closed"
    assert not scene.jobs
    client.below.connection_lost(None)
    (line,) = [record.message for record in caplog.records]
    assert "does not speak TLS" in line


def test_a_handshake_without_end_is_ended_by_its_bytes(make: Callable[..., Scene]) -> None:
    scene = make()
    client = scene.connect()
    client.push(client.hello())  # a thread has it, and what comes meanwhile waits
    record = b"\x16\x03\x03\x40\x00" + b"x" * 0x4000
    for _ in range(limits.HANDSHAKE_BYTES_MAX // len(record) + 1):
        client.push(record)
    assert client.transport.ended
    scene.work()
    assert not scene.made


def test_who_is_refused_by_name_is_closed(
    make: Callable[..., Scene], caplog: pytest.LogCaptureFixture
) -> None:
    scene = make()
    scene.door.refuses = True
    client = scene.connect()
    client.push(client.hello())
    scene.work()
    client.take()
    client.tls.do_handshake()
    client.push(client.said())
    scene.work()
    assert client.transport.ended == "closed"
    assert not scene.made
    assert "no rule fits" in caplog.text


def test_what_is_not_wanted_yet_waits_and_then_comes(make: Callable[..., Scene]) -> None:
    scene = make()
    client = scene.connect()
    above = client.shake_hands()
    above.room, above.stop_at = 1000, 1000
    client.push(client.send(b"x" * 50_000))
    assert len(above.received) == 1000
    assert not client.transport.reads
    above.stop_at = 1 << 62
    above.transport.resume_reading()
    assert len(above.received) == 1000  # not within the call
    scene.clock.advance(0)
    assert len(above.received) == 50_000


def test_what_is_above_is_told_when_the_client_does_not_read_and_when_it_does(
    make: Callable[..., Scene],
) -> None:
    client = make().connect()
    client.below.pause_writing()  # amid the handshake there is nobody to tell
    client.below.resume_writing()
    above = client.shake_hands()
    client.below.pause_writing()
    client.below.resume_writing()
    assert above.told == ["pause", "resume"]


def test_bytes_changed_on_the_way_end_the_connection(
    make: Callable[..., Scene], caplog: pytest.LogCaptureFixture
) -> None:
    client = make().connect()
    above = client.shake_hands()
    sent = bytearray(client.send(b"pay Alice"))
    sent[-1] ^= 1
    client.push(bytes(sent))
    assert above.received == b""
    assert client.transport.ended == "aborted"
    assert "dropping the connection" in caplog.text


def test_a_farewell_is_said_and_heard(make: Callable[..., Scene]) -> None:
    scene = make()
    client = scene.connect()
    above = client.shake_hands()
    above.transport.close()
    client.take()
    assert client.tls.read(10) == b""
    client = scene.connect()
    above = client.shake_hands()
    with pytest.raises(ssl.SSLWantReadError):
        client.tls.unwrap()
    client.push(client.said())
    assert above.ended
    assert client.transport.ended == "closed"


def test_a_client_gone_while_a_thread_has_its_handshake_harms_nobody(
    make: Callable[..., Scene],
) -> None:
    scene = make()
    client = scene.connect()
    client.push(client.hello())
    client.below.connection_lost(None)
    scene.work()
    assert not scene.made
    assert len(scene.handshakes) == 0


def test_of_many_failures_in_one_second_few_are_logged(
    make: Callable[..., Scene], caplog: pytest.LogCaptureFixture
) -> None:
    scene = make()
    with caplog.at_level(logging.WARNING):
        for _ in range(50):
            scene.connect().push(b"nonsense")
        scene.clock.advance(1.5)
        scene.connect().push(b"nonsense")
    lines = [record.message for record in caplog.records]
    assert len(lines) == limits.HANDSHAKES_LOGGED_PER_SECOND + 2
    assert lines[-2] == "45 more TLS handshakes failed within a second"
    assert scene.handshakes.failed == 51


@pytest.mark.parametrize("seed", range(40))
def test_handshakes_with_changed_bytes_end_in_a_line_and_nothing_else(
    make: Callable[..., Scene], caplog: pytest.LogCaptureFixture, seed: int
) -> None:
    chance = random.Random(seed)
    scene = make()
    client = scene.connect()
    hello = bytearray(client.hello())
    for _ in range(chance.randint(1, 30)):
        hello[chance.randrange(5, len(hello))] = chance.randrange(256)
    client.push(bytes(hello))
    scene.work()
    client.push(chance.randbytes(chance.randrange(1, 400)))
    scene.work()
    scene.clock.advance(HANDSHAKE_SECONDS + 1)
    assert client.transport.ended
    assert not scene.made
    assert len(caplog.records) == 1
    assert "met a bug" not in caplog.text
