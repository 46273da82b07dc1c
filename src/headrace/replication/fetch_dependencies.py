"""What followers act through."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from headrace.broker.gathered_writes import GatheredWrites
from headrace.client.transport.peer_clients import PeerClients
from headrace.client.transport.port import Address
from headrace.model.nouns import BrokerId


class Running(Protocol):
    """What was begun and goes on by itself."""

    def cancel(self) -> object: ...


@dataclass(frozen=True, slots=True)
class FetchDependencies:
    """What followers act through."""

    clients: PeerClients
    """Make the clients that ask leaders."""
    writes: GatheredWrites
    spawn: Callable[[Coroutine[Any, Any, None]], Running]
    """Runs a conversation."""
    broker_epoch: Callable[[], int]
    """Of our registration, which leaders bind our progress to."""
    address_of: Callable[[BrokerId], Address | None]
    """Where another broker is reached by brokers."""
