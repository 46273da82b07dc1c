"""Handshakes of TLS and frames of SASL, mutated: the broker stays up, others go on, memory stays.

What is mutated was recorded from sound clients. `make security-test` tries more of it.
"""

import contextlib
import logging
import os
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.security.sasl.plain import PlainServer
from headrace.security.sasl.sasl import TOKEN_BYTES_MAX
from headrace.wire.kafka.api import ApiKey
from tests.support.security.authorisation import frame_of
from tests.support.security.doors import Door, House, Role, Way
from tests.support.security.sasl_kit import Knocking, client_of

EXAMPLES = 300 if os.environ.get("HEADRACE_LONG") else 25
GROWTH_BYTES_MAX = 48 << 20
"""What the process may take more than before, all examples together: most of it is hypothesis's."""
QUIET_SECONDS = 0.3
SETTINGS = settings(
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["flip", "cut", "insert", "double"]), st.floats(0, 0.999),
        st.binary(max_size=8),
    ),
    min_size=1, max_size=6,
)  # fmt: skip


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A broker with every door, and somebody who is there all the time."""
    with House(tmp_path_factory.mktemp("fuzzed")) as made:
        yield made


@pytest.fixture(scope="module")
def hello(house: House) -> bytes:
    """A client's first words by TLS."""
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = house.context(Role.RULED).wrap_bio(into, out, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return out.read()


def changed(data: bytes, changes: list[tuple[str, float, bytes]]) -> bytes:
    """Return bytes with changes made at shares of their length."""
    made = bytearray(data)
    for kind, share, more in changes:
        at = int(share * len(made))
        if kind == "flip" and made:
            made[at] ^= (more or b"\x01")[0] or 1
        elif kind == "cut":
            del made[at : at + len(more) + 1]
        elif kind == "insert":
            made[at:at] = more
        elif kind == "double":
            made[at:at] = made[at : at + 64]
    return bytes(made)


def sent(port: int, data: bytes) -> bytes:
    """Send bytes and return what comes until the other end, or silence."""
    found = b""
    with socket.create_connection(("127.0.0.1", port), 10) as plain, contextlib.suppress(OSError):
        plain.sendall(data)
        plain.settimeout(QUIET_SECONDS)
        plain.shutdown(socket.SHUT_WR)
        while piece := plain.recv(1 << 16):
            found += piece
    return found


def others_go_on(house: House) -> None:
    """See that who was there is served, and who comes is let in."""
    way = Way(Door.SASL_SSL, Role.SUPER)
    assert house.ask(way, ApiKey.METADATA, 12, {"topics": None}) is not None
    with house.come(way) as connection:
        assert connection.ask_values(ApiKey.METADATA, 12, {"topics": None}) is not None


def resident() -> int:
    """Return the bytes of memory that this process takes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def unhurt(house: House, caplog: pytest.LogCaptureFixture, before: int) -> None:
    """See what holds behind each fuzzing."""
    others_go_on(house)
    assert resident() - before < GROWTH_BYTES_MAX
    errors = [line for line in caplog.records if line.levelno >= logging.ERROR]
    assert not [line.getMessage() for line in errors]
    assert "Traceback" not in caplog.text


def test_mutated_client_hellos_hurt_nobody(
    house: House, hello: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    before = resident()
    ports = [house.port(Door.SASL_SSL), house.port(Door.MUTUAL_TLS)]

    @SETTINGS
    @given(st.sampled_from(ports), CHANGES)
    def fuzz(port: int, changes: list[tuple[str, float, bytes]]) -> None:
        answer = sent(port, changed(hello, changes))
        assert answer[:1] in (b"", b"\x15", b"\x16"), "an alert, or the next words of a handshake"

    fuzz()
    unhurt(house, caplog, before)


def frames() -> list[bytes]:
    """Return what sound clients send until they are let in."""
    scram = client_of("SCRAM-SHA-512", Role.SUPER.user, "x")
    return [
        frame_of(
            ApiKey.API_VERSIONS, 4, {"client_software_name": "a", "client_software_version": "1"}
        ),
        frame_of(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"}),
        frame_of(ApiKey.SASL_HANDSHAKE, 0, {"mechanism": "PLAIN"}),
        frame_of(ApiKey.SASL_AUTHENTICATE, 2, {"auth_bytes": b"\0super\0wrong"}),
        frame_of(ApiKey.SASL_AUTHENTICATE, 0, {"auth_bytes": scram.first()}),
    ]


def test_mutated_frames_of_sasl_let_nobody_in_and_hurt_nobody(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    before = resident()
    metadata = frame_of(ApiKey.METADATA, 0, {"topics": []})
    port = house.port(Door.SASL_PLAINTEXT)

    @SETTINGS
    @given(st.lists(st.sampled_from(frames()), min_size=1, max_size=4), CHANGES)
    def fuzz(sound: list[bytes], changes: list[tuple[str, float, bytes]]) -> None:
        answer = sent(port, changed(b"".join(sound), changes) + metadata)
        assert b"127.0.0.1" not in answer, "the brokers were told to who is not authenticated"

    fuzz()
    unhurt(house, caplog, before)


@given(st.binary(max_size=200) | st.text(st.sampled_from("\0ab,=n"), max_size=12).map(str.encode))
def test_no_token_of_plain_but_the_right_one_makes_anybody_known(token: bytes) -> None:
    from headrace.model.secret import Secret
    from headrace.security.sasl.sasl import SaslRefused

    server = PlainServer({"a": Secret("b")})
    with contextlib.suppress(SaslRefused):
        server.respond(token)
    assert server.done is (token in (b"\0a\0b", b"a\0a\0b"))


BAD = {
    "a frame longer than the bound before authentication": b"\x7f\xff\xff\xff",
    "a negative length": b"\xff\xff\xff\xff",
    "HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32),
    "a header of PROXY": b"PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n",
    "an API that is not served": frame_of(ApiKey.VOTE, 0, {"cluster_id": None, "topics": []}),
    "a request before authentication": frame_of(ApiKey.METADATA, 0, {"topics": []}),
    "a token before its mechanism":
        frame_of(ApiKey.SASL_AUTHENTICATE, 1, {"auth_bytes": b"\0super\0let-me-in"}),
    "a mechanism that is not there": frame_of(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "GSSAPI"}),
    "a token that is too long":
        frame_of(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
        + frame_of(ApiKey.SASL_AUTHENTICATE, 1, {"auth_bytes": b"x" * (TOKEN_BYTES_MAX + 1)}),
    "a wrong password":
        frame_of(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
        + frame_of(ApiKey.SASL_AUTHENTICATE, 1, {"auth_bytes": b"\0super\0wrong"}),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_each_bad_input_has_one_clear_line_and_its_connection_ends(
    house: House, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with socket.create_connection(("127.0.0.1", house.port(Door.SASL_PLAINTEXT)), 10) as plain:
        plain.sendall(BAD[what])
        connection = Knocking.over(plain)
        until = 4
        while until and connection.frame() is not None:
            until -= 1
        assert until, "it goes on"
    told = [line for line in caplog.records if line.levelno >= logging.WARNING]
    assert len(told) == 1, [line.getMessage() for line in told]
    assert "127.0.0.1" in told[0].getMessage()
    assert "let-me-in" not in caplog.text
    others_go_on(house)


def test_who_says_by_a_header_that_he_is_somebody_else_is_who_the_socket_says(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    claimed = "203.0.113.9"
    for door in (Door.PLAINTEXT, Door.SASL_PLAINTEXT):
        data = f"PROXY TCP4 {claimed} 127.0.0.1 1 2\r\n".encode()
        assert sent(house.port(door), data + frame_of(ApiKey.METADATA, 0, {"topics": []})) == b""
    seen = house.broker.call(lambda server: [link.address for link in server.table._connections])
    assert claimed not in seen
    assert claimed not in caplog.text.replace(repr(claimed), "")
