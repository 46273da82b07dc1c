"""Counters of one connection's bytes, increased once for each read and each write."""


class ConnectionTraffic:
    """Counters of what a connection received and sent, without the bytes that TLS adds."""

    __slots__ = ("reads", "received_bytes", "sent_bytes", "writes")

    def __init__(self) -> None:
        self.received_bytes = 0
        self.reads = 0
        """Reads of the socket, each of which may bring several frames or a part of one."""
        self.sent_bytes = 0
        """Bytes passed to the transport, of which some may not have left yet."""
        self.writes = 0
        """Writes, each of which may send many frames."""
