"""Code shared by all SASL mechanisms: names, refusals, and the two sides of an exchange."""

from enum import StrEnum
from typing import Protocol

from headrace.model.errors import HeadraceError

TOKEN_BYTES_MAX = 64 << 10
"""Longest accepted SASL token in bytes; a longer one is refused unread."""


class Mechanism(StrEnum):
    """The supported SASL mechanisms, by their Kafka and IANA names."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"


class SaslRefused(HeadraceError):
    """Authentication failed. The text is for the broker's log and contains no secret."""

    def __init__(self, reason: str, told: str | None = None) -> None:
        """`told`: the text sent to the client; None: only that its credentials are invalid."""
        super().__init__(reason)
        self.told = told


class SaslServer(Protocol):
    """The server's side of one SASL exchange."""

    user: str
    """The authenticated user, once `done`."""
    done: bool
    """Whether the client has authenticated."""
    ends_ms: int | None = None
    """When the client's credentials expire, in ms since 1970; None: never."""
    by_delegation_token: bool = False
    """Whether the client authenticated with a delegation token."""
    rejected: str = ""
    """Why the next message will be refused; the client has been notified already. Empty if it will
    not."""

    def respond(self, token: bytes) -> bytes:
        """Return the response to the client's next token; SaslRefused ends the exchange."""


class SaslClient(Protocol):
    """The client's side of one SASL exchange."""

    def first(self) -> bytes:
        """Return the client's first token."""

    def respond(self, token: bytes) -> bytes | None:
        """Return the response to the server's token, None at the end; SaslRefused if its proof is
        wrong."""
