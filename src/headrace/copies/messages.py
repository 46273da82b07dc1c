"""Questions about copies of settled positions to a broker, and its answers: API 20003.

a leader copies frames    content, with the name of the frame before it and of its last one
... a complete frame      its bytes from `position` on, of `whole_bytes`: it may be large
a new leader asks         no content: for the name of the last frame, and `read_from`: bytes of
                          the file
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from headrace.delivery.settled_state import NO_FRAME, FrameName
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.ports.callbacks import Done

REQUEST_BYTES_MAX = 1024 * 1024
"""Bytes of frames in one request, and of a file in one answer."""


class CopyQuestion(NamedTuple):
    """A leader's question about one partition."""

    partition: TopicPartition
    topic_id: bytes
    leader_epoch: int
    """The epoch in which the sender leads: frames of earlier leaders are refused from now on."""
    content: bytes = b""
    follows: FrameName = NO_FRAME
    """The name of the frame before the content."""
    last: FrameName = NO_FRAME
    """The name of the content's last frame."""
    whole_bytes: int = 0
    """Bytes of the complete frame of which the content is a part; 0: the content is frames."""
    position: int = 0
    """The part's first byte in the complete frame."""
    read_from: int = -1
    """The byte from which the file is to be read; -1: it is not."""


class CopyAnswer(NamedTuple):
    """A follower's answer about one partition."""

    error: ErrorCode = ErrorCode.NONE
    last: FrameName = NO_FRAME
    """The name of the last frame that is durable."""
    part_end: int = 0
    """Bytes that are received of a complete frame that is not."""
    file_bytes: int = 0
    content: bytes = b""
    """Bytes of the file from `read_from` on."""


class CopyTransport(Protocol):
    """Requests to other brokers. Implemented by `server.cluster.remote_copies.RemoteCopies`."""

    def ask(
        self,
        broker: BrokerId,
        questions: Sequence[CopyQuestion],
        done: Done[Sequence[CopyAnswer] | ApiError],
    ) -> None:
        """Ask a broker once; `done` gets an answer to each question, or the error."""
