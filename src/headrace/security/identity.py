"""Who asks: the same for every frontend, and what authorisation and quotas are about."""

from typing import NamedTuple

USER = "User"


class Principal(NamedTuple):
    """Who somebody is, by kind and name: `User:alice`."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS = Principal(USER, "ANONYMOUS")
"""Whoever is not authenticated, as Kafka calls him."""

LOCAL_LISTENER = "local"
"""The name of the Unix socket for administration, as a listener. In lower case: names of listeners
that are configured are in capitals, so that none can be taken for it."""
LOCAL = Principal(USER, "local")
"""Who comes by that socket: the broker's own user of this machine, or root. A user of that name who
authenticates elsewhere is somebody else: may do what his ACLs say."""


class Identity(NamedTuple):
    """The other end of one connection, as the broker knows it and not as it says of itself."""

    host: str
    """The peer's address as text, without port (from the socket, never from a request)."""
    listener: str
    """Name of the listener that it came through."""
    principal: Principal = ANONYMOUS
    tags: frozenset[str] = frozenset()
    """What whoever authenticated it says it may be taken for."""
    by_delegation_token: bool = False
    """Whether a delegation token stood for the password: such a one makes no further tokens."""
