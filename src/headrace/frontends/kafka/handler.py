"""What one served API is, and what its handler is handed.

A *cold* handler takes and returns kio's entities and may be `async def`. A *hot* one takes the raw
body and decides itself how it answers (see dispatch).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.wire.kafka.api import ApiKey

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.cluster.controller import Controller


@dataclass(slots=True)
class RequestContext:
    """Who asks, in what version, and who can answer."""

    broker: "Broker"
    controller: "Controller"
    api_key: ApiKey
    version: int
    client_id: str | None
    client_host: str
    """The peer's address as text, without port (from the socket, never from the request)."""
    listener: str
    """Name of the listener the request came through: Metadata answers with that one's addresses."""


@dataclass(frozen=True, slots=True)
class Api:
    """One served API: its key, the versions served (inclusive) and the code that answers."""

    key: ApiKey
    min_version: int
    max_version: int
    handle: Callable[..., Any]
    hot: bool = False
