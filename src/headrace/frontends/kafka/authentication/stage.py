"""The stages of a connection on a listener with SASL."""

from enum import Enum


class Stage(Enum):
    """The stage of a connection; each has a table of routes, the only check of a frame."""

    FIRST = "handshake"
    TOKENS = "authentication"
    RAW = "authentication by bare tokens"
    DONE = "done"
    EXPIRED = "expired"
    FAILED = "failed"
