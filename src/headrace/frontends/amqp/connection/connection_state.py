"""The states of an AMQP connection, and how long some of them last."""

from enum import Enum

HANDSHAKE_S_MAX = 10.0
"""Seconds from accept until the connection is open; RabbitMQ's handshake_timeout."""
CLOSE_S_MAX = 30.0
"""Seconds to wait for close-ok, or for the client to close its socket."""
SILENT_CLOSE_S = 3.0
"""Seconds for which a refused connection stays open, unread."""


class State(Enum):
    """The state of a connection; the values are RabbitMQ's names."""

    HEADER = "pre_init"
    STARTING = "starting"
    SECURING = "securing"
    TUNING = "tuning"
    OPENING = "opening"
    RUNNING = "running"
    CLOSED = "closed"
    """connection.close or close-ok was sent; only connection.close and close-ok are read."""
    REFUSED = "refused"
    """Nothing is read any more; the connection ends after a delay."""


def close_seconds(heartbeat_s: int) -> float:
    """Return how long to wait for close-ok; `heartbeat_s` 0: no heartbeats."""
    return min(heartbeat_s or CLOSE_S_MAX, CLOSE_S_MAX)
