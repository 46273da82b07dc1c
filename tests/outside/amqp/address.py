"""Where a broker listens for AMQP, and whether it answers there."""

import socket
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import quote

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"


class Address(NamedTuple):
    """A broker's door, and who enters."""

    port: int
    user: str = "guest"
    password: str = "guest"
    vhost: str = "/"
    host: str = "127.0.0.1"

    @property
    def url(self) -> str:
        """The address as clients take it."""
        who = f"{quote(self.user, '')}:{quote(self.password, '')}"
        return f"amqp://{who}@{self.host}:{self.port}/{quote(self.vhost, '')}"


def answers(address: Address) -> bool:
    """Whether Connection.Start answers the protocol's header."""
    with socket.socket() as probe, suppress(OSError):
        probe.settimeout(5)
        probe.connect((address.host, address.port))
        probe.sendall(PROTOCOL_HEADER)
        return probe.recv(7)[:1] == b"\x01"
    return False
