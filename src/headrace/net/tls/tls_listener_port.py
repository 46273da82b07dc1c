"""What TLS asks of a listener, and what it learns of who is at the other end."""

import ssl
from typing import NamedTuple, Protocol

from headrace.security.identity import Principal


class Peer(NamedTuple):
    """Who is at the other end, as its certificate says."""

    principal: Principal


class Door(Protocol):
    """What a listener's connections ask when they begin: the newest certificate among it."""

    name: str
    """The listener's name."""

    @property
    def context(self) -> ssl.SSLContext:
        """What new connections are made with."""

    def identify(self, certificate: bytes | None) -> Principal:
        """Return who shows this verified certificate, or none; HeadraceError. On any thread."""
