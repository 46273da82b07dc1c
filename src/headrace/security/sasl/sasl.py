"""What SASL's mechanisms have in common: their names, how one is refused, who plays the server."""

from enum import StrEnum
from typing import Protocol

from headrace.model.errors import HeadraceError

TOKEN_BYTES_MAX = 64 << 10
"""The longest token that a mechanism reads; a longer one is refused unread."""


class Mechanism(StrEnum):
    """The mechanisms that are served; Kafka's and IANA's names."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"


class SaslRefused(HeadraceError):
    """A client has not proved who it is. The text is for our log and holds no secret."""

    def __init__(self, reason: str, told: str | None = None) -> None:
        """`told`: what the client may know of it; None: only that its credentials are invalid."""
        super().__init__(reason)
        self.told = told


class SaslServer(Protocol):
    """One exchange of one mechanism, the server's side."""

    user: str
    """Who it is, once `done`."""
    done: bool
    """Whether the client has proved it."""
    ends_ms: int | None = None
    """When what it proved it by ends, in milliseconds since 1970; None: never."""
    by_delegation_token: bool = False
    """Whether it proved it by a delegation token."""
    rejected: str = ""
    """Why the next message will be refused, whatever it is: the client has been told already."""

    def respond(self, token: bytes) -> bytes:
        """Return the answer to the client's next token; SaslRefused ends the exchange."""


class SaslClient(Protocol):
    """One exchange of one mechanism, the client's side."""

    def first(self) -> bytes:
        """Return the first token."""

    def respond(self, token: bytes) -> bytes | None:
        """Return the answer to the server's next token, None at the end; SaslRefused: it lies."""
