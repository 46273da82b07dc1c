"""The states of a connection of AMQP."""

from enum import Enum


class State(Enum):
    """How far a connection has come; the values are RabbitMQ's names."""

    HEADER = "pre_init"
    STARTING = "starting"
    SECURING = "securing"
    TUNING = "tuning"
    OPENING = "opening"
    RUNNING = "running"
    CLOSED = "closed"
    """A close or its answer is sent; only a close or its answer is taken."""
    REFUSED = "refused"
    """Nothing is taken any more; it ends after a while."""
