"""Fetch connections that a Spark worker reuses between its tasks.

A worker runs one task after the other. A micro-batch's task takes a few milliseconds, of which
connecting and fetching API versions would be a good part.
"""

import threading
import time
from typing import NamedTuple

from headrace.client.sync import FetchConnection
from headrace.client.transport.port import Address
from headrace.spark.security import NO_SECURITY, Security

KEPT_MAX = 16
"""Maximum idle connections of one process; the oldest are closed."""
IDLE_SECONDS_MAX = 60.0
"""How many seconds a connection may be idle; brokers close idle ones too."""


class _Kept(NamedTuple):
    connection: FetchConnection
    since: float
    security: Security


class FetchConnections:
    """The idle fetch connections of one process. Each has one user at a time. Thread-safe."""

    def __init__(
        self, kept_max: int = KEPT_MAX, idle_seconds_max: float = IDLE_SECONDS_MAX
    ) -> None:
        self._kept_max = kept_max
        self._idle_seconds_max = idle_seconds_max
        self._kept: list[_Kept] = []
        self._lock = threading.Lock()

    def take(
        self,
        address: Address,
        client_id: str,
        timeout_seconds: float,
        security: Security = NO_SECURITY,
    ) -> FetchConnection:
        """Return a connection to `address`, an idle one if possible. Raises ClientError.

        An idle connection is only reused with the same client id and security settings.
        """
        wanted = (address, client_id, security)
        with self._lock:
            self._close_older(time.monotonic() - self._idle_seconds_max)
            for index in range(len(self._kept) - 1, -1, -1):
                kept, _, made_by = self._kept[index]
                if (kept.address, kept.client_id, made_by) != wanted:
                    continue
                del self._kept[index]
                if kept.at_rest:
                    kept.timeout_seconds = timeout_seconds
                    return kept
                kept.close()
        return security.fetch_connection(address, client_id, timeout_seconds)

    def give_back(self, connection: FetchConnection, security: Security = NO_SECURITY) -> None:
        """Keep a connection for the next user, or close it if it cannot be reused.

        `security`: the settings that it was opened with.
        """
        if not connection.at_rest:
            connection.close()
            return
        with self._lock:
            self._kept.append(_Kept(connection, time.monotonic(), security))
            while len(self._kept) > self._kept_max:
                self._kept.pop(0).connection.close()

    def close(self) -> None:
        """Close all idle connections."""
        with self._lock:
            self._close_older(float("inf"))

    def _close_older(self, than: float) -> None:
        while self._kept and self._kept[0].since < than:
            self._kept.pop(0).connection.close()


kept_connections = FetchConnections()
"""The idle connections of this process."""
