"""`Door` and `CertificatePeer`: a listener's TLS context, and the peer's identity."""

import ssl
from typing import NamedTuple, Protocol

from headrace.security.identity import Principal


class CertificatePeer(NamedTuple):
    """The client's identity in its certificate."""

    principal: Principal


class Door(Protocol):
    """A listener's TLS configuration, with the newest certificate."""

    name: str
    """The listener's name."""

    @property
    def plain_too(self) -> bool:
        """Whether clients that begin without TLS are served as well."""

    @property
    def context(self) -> ssl.SSLContext:
        """The SSL context for new connections."""

    def identify(self, certificate: bytes | None) -> Principal:
        """Return the principal of a verified certificate, or of none. Raises HeadraceError. On any
        thread."""
