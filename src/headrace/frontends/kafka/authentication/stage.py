"""The stages of a connection on a listener that authenticates."""

from enum import Enum


class Stage(Enum):
    """How far a connection is. Which routes it has in each is all that a frame is looked up in."""

    FIRST = "handshake"
    TOKENS = "authentication"
    RAW = "authentication by bare tokens"
    DONE = "done"
    EXPIRED = "expired"
    FAILED = "failed"
