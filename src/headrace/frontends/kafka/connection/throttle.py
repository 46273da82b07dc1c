"""Throttling of one connection by quotas: counts requests, and stops reading for a time.

As in Kafka since KIP-219: the answer is sent at once with a throttle time, and the connection is
not read for that time, whether or not the client waits. A Fetch over its quota is answered empty.
Used only while any quota is set.
"""

from typing import TYPE_CHECKING

from headrace.broker.quotas import QuotaKey

if TYPE_CHECKING:
    from headrace.broker.quotas import ClientQuota, Quotas
    from headrace.net.connection import Connection

_WAIT_MS_MAX = (1 << 31) - 1


class Throttle:
    """The quotas that apply to one connection's client, and its throttle time."""

    def __init__(self, quotas: "Quotas", connection: "Connection", user: str) -> None:
        self._quotas = quotas
        self._user = user
        self._connection = connection
        self._client = ""
        self._version = -1
        self._quota: ClientQuota
        self._seconds = 0.0

    def begin(self, client_id: str | None, produced_bytes: int | None) -> None:
        """Note the begin of a request; `produced_bytes` is the size of a Produce, else None."""
        client = client_id or ""
        if self._version != self._quotas.version or client != self._client:
            self._quota = self._quotas.of(self._user, client)
            self._client, self._version = client, self._quotas.version
        self._seconds = 0.0
        if produced_bytes is not None:
            self._wait(QuotaKey.PRODUCE, self._quota.produced(produced_bytes))

    def end(self, seconds_taken: float) -> int:
        """Note the end of a request; return the throttle time for its answer in ms, usually 0."""
        self._wait(QuotaKey.REQUEST, self._quota.handled(seconds_taken))
        return milliseconds(self._seconds)

    def fetch_bytes_max(self, wanted: int) -> int:
        """Return how many of the `wanted` bytes a Fetch may be answered with."""
        return self._quota.fetch_bytes_max(wanted)

    def fetched(self, size: int) -> int:
        """Count bytes of a Fetch answer; return the ms to wait instead of sending it, usually 0."""
        seconds = self._quota.fetched(size)
        self._wait(QuotaKey.FETCH, seconds)
        return milliseconds(seconds)

    def not_sent(self, size: int) -> None:
        """Uncount `size` bytes that `fetched` counted and that were not sent."""
        self._quota.not_sent(size)

    def _wait(self, key: QuotaKey, seconds: float) -> None:
        if seconds <= 0:
            return
        self._quotas.throttled[key] += 1
        self._seconds = max(self._seconds, seconds)
        self._connection.mute(seconds)


def milliseconds(seconds: float) -> int:
    """Convert seconds to milliseconds of a throttle time; a positive wait is at least 1."""
    return min(int(seconds * 1000) or (1 if seconds > 0 else 0), _WAIT_MS_MAX)
