"""`Limits`: all limits on clients: connections, frame sizes, memory, queues, times."""

from headrace.config.connection_limits import ConnectionLimits
from headrace.config.keys.network import NetworkKeys
from headrace.config.listeners import METRICS_LISTENER
from headrace.security.identity import LOCAL_LISTENER

_NOTHING_ALTERED = ConnectionLimits()


class Limits:
    """The limits of all connections together and of each, from the configuration."""

    def __init__(self, config: NetworkKeys, single: ConnectionLimits = _NOTHING_ALTERED) -> None:
        """Take the limits from `config`; `single`: those of single addresses and listeners."""
        self.frame_bytes_max = config.socket_request_max_bytes
        queued_bytes = config.queued_max_request_bytes
        self.request_bytes_max = queued_bytes if queued_bytes >= 0 else 1 << 62
        self.connections_max = config.max_connections
        self.connections_per_address_max = config.max_connections_per_ip
        self.address_connections_max = single.of_addresses
        self.listener_connections_max = single.of_listeners
        self.spared_listeners = single.for_brokers | {LOCAL_LISTENER}
        """Listeners of brokers and local administrators, which `connections_max` does not limit."""
        self.listeners_apart = {METRICS_LISTENER: HTTP_CONNECTIONS_MAX, **single.apart}
        """Number of places of listeners apart, by name.

        No other limit or rate applies to them, and they do not count towards others.
        """
        self.begin_unknown = single.begin_unknown
        """Listeners whose connections begin as strangers, that is unauthenticated."""
        self.strangers_percent_max = config.max_connections_unauthenticated_percent
        self.strangers_per_address_max = config.max_connections_unauthenticated_per_ip
        self.handshake_seconds_max = config.connection_handshake_ms / 1000
        self.authentication_seconds_max = config.connection_authentication_ms / 1000
        idle_ms = config.connections_max_idle_ms
        self.idle_seconds_max = idle_ms / 1000 if idle_ms >= 0 else float("inf")
        self.first_frame_seconds_max = config.connection_first_request_ms / 1000
        self.frame_seconds_max = config.connection_request_receive_ms / 1000
        self.waiting_answers_max = config.connection_requests_max
        self.write_buffer_bytes_high = config.connection_answer_bytes_max
        self.slow_reader_seconds_max = config.connection_slow_reader_ms / 1000


HTTP_CONNECTIONS_MAX = 16
"""Most connections to `metrics.listener`, which can be scraped however many clients there are."""

AUTHENTICATION_FRAME_BYTES_MAX = 512 << 10
"""Longest frame of an unauthenticated client in bytes; Kafka's sasl.server.max.receive.size."""

UNREAD_FACTOR_MAX = 4
"""Multiple of the unread bytes limit that a session may push nevertheless."""

STRANGERS_MIN = 16
"""Strangers that are always allowed, however low the limit of connections is."""

SCRATCH_BYTES = 256 << 10
"""Size of the shared receive buffer, and most bytes of one read into it."""

SWEEP_SECONDS = 1.0
"""Seconds between two checks of deadlines."""

JOIN_BYTES_MAX = 64 << 10
"""Answers of one pass up to this size in total are joined into one buffer."""

PIECE_BYTES = 256 << 10
"""Bytes of a file read at a time, into a buffer shared by all connections."""

SEND_BYTES = 1 << 20
"""Bytes of a file sent by one sendfile call."""

WAIT_BYTES = 64 << 10
"""Bytes given to the transport when the socket is full, to be notified when it drains."""

TURN_BYTES_MAX = 2 << 20
"""Bytes of files sent to one connection before others have their turn."""

HANDSHAKE_BYTES_MAX = 128 << 10
"""Most bytes that a client may send in a handshake: a certificate chain and a little more."""

HANDSHAKES_LOGGED_PER_SECOND = 5
"""Failed handshakes logged individually per second."""

ENCRYPT_BYTES = RECEIVE_BYTES = 64 << 10
"""Bytes encrypted or decrypted at a time; OpenSSL's memory per connection grows to this size."""
