"""The clients of a broker by vhost and by user, as limits count them."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.frontends.amqp.client import Client


class ConnectedClients:
    """All AMQP clients of a broker that have opened a vhost."""

    def __init__(self) -> None:
        self._of_vhost: dict[str, dict[Client, None]] = {}
        self._of_user: dict[str, dict[Client, None]] = {}

    def __iter__(self) -> "Iterator[Client]":
        return (client for clients in self._of_vhost.values() for client in clients)

    def add(self, client: "Client") -> None:
        """Add a client that has opened its vhost."""
        self._of_vhost.setdefault(client.host.name, {})[client] = None
        self._of_user.setdefault(client.user, {})[client] = None

    def remove(self, client: "Client") -> None:
        """Remove a client whose connection is closed."""
        for of, name in ((self._of_vhost, client.host.name), (self._of_user, client.user)):
            clients = of.get(name, {})
            clients.pop(client, None)
            if not clients:
                of.pop(name, None)

    def of_vhost(self, vhost: str) -> "list[Client]":
        """Return the AMQP clients of a vhost."""
        return list(self._of_vhost.get(vhost, ()))

    def of_user(self, user: str) -> "list[Client]":
        """Return the AMQP clients of a user."""
        return list(self._of_user.get(user, ()))

    def count_in(self, vhost: str) -> int:
        """Return the number of a vhost's clients."""
        return len(self._of_vhost.get(vhost, ()))

    def count_of(self, user: str) -> int:
        """Return the number of a user's clients."""
        return len(self._of_user.get(user, ()))

    def channels_of(self, user: str) -> int:
        """Return how many channels a user has open, on all connections."""
        return sum(client.channel_count for client in self._of_user.get(user, ()))
