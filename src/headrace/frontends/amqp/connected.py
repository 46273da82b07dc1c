"""The clients that have opened a vhost, by vhost and by user: what limits count."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.frontends.amqp.client import Client


class ConnectedClients:
    """All of one broker."""

    def __init__(self) -> None:
        self._of_vhost: dict[str, dict[Client, None]] = {}
        self._of_user: dict[str, dict[Client, None]] = {}

    def __iter__(self) -> "Iterator[Client]":
        return (client for clients in self._of_vhost.values() for client in clients)

    def add(self, client: "Client") -> None:
        """Count a client that has opened its vhost."""
        self._of_vhost.setdefault(client.host.name, {})[client] = None
        self._of_user.setdefault(client.user, {})[client] = None

    def remove(self, client: "Client") -> None:
        """Count it no more."""
        for of, name in ((self._of_vhost, client.host.name), (self._of_user, client.user)):
            clients = of.get(name, {})
            clients.pop(client, None)
            if not clients:
                of.pop(name, None)

    def of_vhost(self, vhost: str) -> "list[Client]":
        """Return those of a vhost."""
        return list(self._of_vhost.get(vhost, ()))

    def of_user(self, user: str) -> "list[Client]":
        """Return those of a user."""
        return list(self._of_user.get(user, ()))

    def count_in(self, vhost: str) -> int:
        """Return how many a vhost has."""
        return len(self._of_vhost.get(vhost, ()))

    def count_of(self, user: str) -> int:
        """Return how many a user has."""
        return len(self._of_user.get(user, ()))

    def channels_of(self, user: str) -> int:
        """Return how many channels a user has open, on all connections."""
        return sum(client.channel_count for client in self._of_user.get(user, ()))
