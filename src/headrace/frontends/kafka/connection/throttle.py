"""Quotas at one connection: counts its requests, tells the client to wait and reads it no further.

As Kafka since KIP-219: the answer goes out at once and says how long the client is to wait, and the
connection is not read for that long, whether or not the client keeps to it. A Fetch over its quota
is answered with nothing in it. Only requests that come while some quota is set get here.
"""

from typing import TYPE_CHECKING

from headrace.broker.quotas import QuotaKey

if TYPE_CHECKING:
    from headrace.broker.quotas import ClientQuota, Quotas
    from headrace.net.connection import Connection

_WAIT_MS_MAX = (1 << 31) - 1


class Throttle:
    """The quotas of one connection's client."""

    def __init__(self, quotas: "Quotas", connection: "Connection", user: str) -> None:
        self._quotas = quotas
        self._user = user
        self._connection = connection
        self._client = ""
        self._version = -1
        self._quota: ClientQuota
        self._seconds = 0.0

    def begin(self, client_id: str | None, produced_bytes: int | None) -> None:
        """Note that a request comes; of a Produce request its size.

        Answers to it ask `seconds_of`.
        """
        client = client_id or ""
        if self._version != self._quotas.version or client != self._client:
            self._quota = self._quotas.of(self._user, client)
            self._client, self._version = client, self._quotas.version
        self._seconds = 0.0
        if produced_bytes is not None:
            self._wait(QuotaKey.PRODUCE, self._quota.produced(produced_bytes))

    def end(self, seconds_taken: float) -> int:
        """Note that the request was handled.

        Returns the milliseconds to tell in its answer, 0 mostly.
        """
        self._wait(QuotaKey.REQUEST, self._quota.handled(seconds_taken))
        return milliseconds(self._seconds)

    def fetch_bytes_max(self, wanted: int) -> int:
        """Return the most bytes a Fetch is answered with."""
        return self._quota.fetch_bytes_max(wanted)

    def fetched(self, size: int) -> int:
        """Count `size` bytes about to answer a Fetch.

        Returns milliseconds to wait instead, 0 mostly.
        """
        seconds = self._quota.fetched(size)
        self._wait(QuotaKey.FETCH, seconds)
        return milliseconds(seconds)

    def not_sent(self, size: int) -> None:
        """Take back `size` bytes that `fetched` counted and that did not go after all."""
        self._quota.not_sent(size)

    def _wait(self, key: QuotaKey, seconds: float) -> None:
        if seconds <= 0:
            return
        self._quotas.throttled[key] += 1
        self._seconds = max(self._seconds, seconds)
        self._connection.mute(seconds)


def milliseconds(seconds: float) -> int:
    """Convert a wait to the milliseconds that the protocol tells; a short one is no wait of 0."""
    return min(int(seconds * 1000) or (1 if seconds > 0 else 0), _WAIT_MS_MAX)
