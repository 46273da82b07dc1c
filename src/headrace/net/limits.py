"""Every bound on what clients can make the broker hold or wait for."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of all connections together and of each. Bytes and seconds."""

    frame_bytes_max: int = 100 << 20
    """socket.request.max.bytes: a longer announced frame closes its connection."""
    request_bytes_max: int = 256 << 20
    """queued.max.request.bytes: what large frames being received may hold in all."""
    connections_max: int = 10_000
    """max.connections"""
    connections_per_address_max: int = 2**31 - 1
    """max.connections.per.ip"""
    idle_seconds_max: float = 600.0
    """connections.max.idle.ms: a connection on which nothing moved that long is closed."""
    first_frame_seconds_max: float = 10.0
    """connection.first.request.ms: a new connection must have sent one whole request by then."""
    frame_seconds_max: float = 120.0
    """From the first byte of a frame to its last."""
    waiting_answers_max: int = 1000
    """connection.requests.max: requests of one connection that may wait for their answers before it
    is read no further."""
    write_buffer_bytes_high: int = 16 << 20
    """connection.answer.bytes.max: unsent answers beyond this, and the connection's requests wait
    until the client has read."""
    slow_reader_seconds_max: float = 60.0
    """connection.slow.reader.ms: how long a client may leave its answers beyond that mark before it
    is dropped."""


SCRATCH_BYTES = 256 << 10
"""The receive buffer shared by all connections, and what one read brings at most through it."""

SWEEP_SECONDS = 1.0
"""How often deadlines are looked at."""

JOIN_BYTES_MAX = 64 << 10
"""Answers of one pass below this are joined before they are written: one short copy, one buffer."""

PIECE_BYTES = 256 << 10
"""What is read of a file at a time to be sent, into one buffer for all connections."""

SEND_BYTES = 1 << 20
"""What the system is told to send of a file at a time."""

WAIT_BYTES = 64 << 10
"""What is given to the transport where the socket takes no more, for its word when it does."""

TURN_BYTES_MAX = 2 << 20
"""What one connection is sent of files before the others have their turn."""
