"""The states of an AMQP connection."""

from enum import Enum


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
