"""The clients of a broker by vhost and by user, as limits count them, and their traffic."""

from typing import TYPE_CHECKING, NamedTuple

from headrace.frontends.amqp.channel.channel_traffic import ChannelCounts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.frontends.amqp.client import Client


class VhostTraffic(NamedTuple):
    """Counters of all channels and connections of a vhost on this broker since its start."""

    messages: ChannelCounts = ChannelCounts()
    received_bytes: int = 0
    sent_bytes: int = 0


_NO_TRAFFIC = VhostTraffic()


class ConnectedClients:
    """All AMQP clients of a broker that have opened a vhost."""

    def __init__(self) -> None:
        self._of_vhost: dict[str, dict[Client, None]] = {}
        self._of_user: dict[str, dict[Client, None]] = {}
        self._closed: dict[str, VhostTraffic] = {}
        """Sums of the closed channels and connections of each vhost."""

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
        vhost, ended = client.host.name, client.traffic
        messages, received, sent = self._closed.get(vhost, _NO_TRAFFIC)
        self._closed[vhost] = VhostTraffic(
            messages, received + ended.received_bytes, sent + ended.sent_bytes
        )

    def channel_closed(self, vhost: str, counts: ChannelCounts) -> None:
        """Add the counters of a closed channel to those of its vhost."""
        closed = self._closed.get(vhost, _NO_TRAFFIC)
        self._closed[vhost] = closed._replace(messages=closed.messages.plus(counts))

    def vhost_deleted(self, vhost: str) -> None:
        """Forget the counters of a deleted vhost."""
        self._closed.pop(vhost, None)

    def traffic_in(self, vhost: str) -> VhostTraffic:
        """Return the sums of a vhost's channels and connections, open or closed."""
        messages, received, sent = self._closed.get(vhost, _NO_TRAFFIC)
        for client in self._of_vhost.get(vhost, ()):
            received += client.traffic.received_bytes
            sent += client.traffic.sent_bytes
            for channel in client.channels:
                messages = messages.plus(channel.counts())
        return VhostTraffic(messages, received, sent)

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
