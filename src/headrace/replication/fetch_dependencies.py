"""`Means`: the dependencies of followers, such as clients and gathered writes."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from headrace.broker.gathered_writes import GatheredWrites
from headrace.client.transport.peer_clients import PeerClients
from headrace.client.transport.port import Address
from headrace.model.nouns import BrokerId


class Running(Protocol):
    """A running task that can be cancelled."""

    def cancel(self) -> object: ...


@dataclass(frozen=True, slots=True)
class Means:
    """The dependencies of followers."""

    clients: PeerClients
    """Makes the clients that send requests to leaders."""
    writes: GatheredWrites
    spawn: Callable[[Coroutine[Any, Any, None]], Running]
    """Starts a conversation with a leader as a task."""
    broker_epoch: Callable[[], int]
    """Returns this broker's epoch, which leaders attach to its progress."""
    address_of: Callable[[BrokerId], Address | None]
    """Returns the address of another broker for brokers; None if unknown."""
