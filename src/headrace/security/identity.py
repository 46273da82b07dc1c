"""The identity of a connection, the subject of authorisation and quotas in all frontends."""

from typing import NamedTuple

USER = "User"


class Principal(NamedTuple):
    """An authenticated user as type and name: `User:alice`."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS = Principal(USER, "ANONYMOUS")
"""The principal of unauthenticated connections, as in Kafka."""

LOCAL_LISTENER = "local"
"""Listener name of the Unix socket for administration. Lower case: names of configured listeners
are upper case, so none can equal it."""
LOCAL = Principal(USER, "local")
"""Principal of that socket's connections: the broker's own user on this machine, or root. A user of
the same name who authenticates elsewhere has only the permissions of its ACLs."""


class Identity(NamedTuple):
    """The identity of a connection's client, as established by the broker."""

    host: str
    """The peer's IP address as text, without port, taken from the socket."""
    listener: str
    """Name of the listener that accepted the connection."""
    principal: Principal = ANONYMOUS
    tags: frozenset[str] = frozenset()
    """User tags that the authentication backend returned."""
    by_delegation_token: bool = False
    """Whether a delegation token was the password; such a connection may not create tokens."""
