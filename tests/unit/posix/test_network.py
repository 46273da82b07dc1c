"""Listening: every address of a name, one port, the buffers asked for, and nothing left behind."""

import asyncio
import socket

import pytest

from headrace.ports.network import ListenOptions
from headrace.posix import network
from headrace.posix.network import RealListening, RealNetwork


def listening(host: str, port: int = 0, **options: int) -> RealListening:
    return RealNetwork().listen(host, port, ListenOptions(**options))


@pytest.fixture
def two_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("this machine has no second family of addresses")
    monkeypatch.setattr(
        network,
        "_resolve",
        lambda host, port: [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")],
    )


def test_the_port_the_system_chose_for_the_first_address_is_the_second_ones_too(
    two_addresses: None,
) -> None:
    made = listening("both")
    ports = [one.getsockname()[1] for one in made._sockets]
    assert ports == [made.port, made.port]
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        with socket.socket(family) as client:
            client.settimeout(10)
            client.connect((address, made.port))
    made.close()
    assert [one.fileno() for one in made._sockets] == [-1, -1]


def test_where_one_address_is_taken_none_is_listened_on(
    two_addresses: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound: list[socket.socket] = []
    real = network._bind

    def noted(family: int, host: str, port: int) -> socket.socket:
        bound.append(real(family, host, port))
        return bound[-1]

    monkeypatch.setattr(network, "_bind", noted)
    with socket.socket(socket.AF_INET6) as other:
        other.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        other.bind(("::1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(OSError, match="in use"):
            listening("both", port)
    assert [one.fileno() for one in bound] == [-1] * len(bound)


def test_buffers_are_as_asked_and_the_systems_own_where_nothing_is() -> None:
    kinds = (socket.SO_SNDBUF, socket.SO_RCVBUF)

    def sizes(**options: int) -> list[int]:
        made = listening("127.0.0.1", **options)
        try:
            return [made._sockets[0].getsockopt(socket.SOL_SOCKET, kind) for kind in kinds]
        finally:
            made.close()

    usual = sizes()
    assert sizes(send_buffer_bytes=0, receive_buffer_bytes=0) == usual
    few = sizes(send_buffer_bytes=1, receive_buffer_bytes=1)
    assert few[0] < usual[0]
    assert few[1] < usual[1]
    asked = sizes(send_buffer_bytes=20_000, receive_buffer_bytes=30_000)
    assert asked == [40_000, 60_000], "the system doubles them"


@pytest.mark.parametrize(
    ("host", "found"),
    [
        ("", [(socket.AF_INET, "0.0.0.0")]),
        ("*", [(socket.AF_INET, "0.0.0.0")]),
        ("127.0.0.1", [(socket.AF_INET, "127.0.0.1")]),
        ("::1", [(socket.AF_INET6, "::1")]),
    ],
)
def test_a_name_is_its_addresses_each_once(host: str, found: list[tuple[int, str]]) -> None:
    assert network._resolve(host, 9092) == found


class Noted(asyncio.Protocol):
    """Tells that it is connected, and closes its end."""

    def __init__(self) -> None:
        self.connected = asyncio.Event()
        self.lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.connected.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set()


def test_connections_are_accepted_until_it_is_closed() -> None:
    async def story() -> None:
        made = listening("127.0.0.1")
        theirs = Noted()
        await made.accept(lambda: theirs)
        ours = await RealNetwork().connect(Noted, "127.0.0.1", made.port)
        await theirs.connected.wait()
        made.close()
        with pytest.raises(ConnectionRefusedError):
            await RealNetwork().connect(Noted, "127.0.0.1", made.port)
        ours.transport.close()
        await ours.lost.wait()
        await theirs.lost.wait()

    asyncio.run(asyncio.wait_for(story(), 30))
    assert RealNetwork().host_name() == socket.gethostname()
