"""Every bound on what clients can make the broker hold or wait for."""

from headrace.config.connection_limits import ConnectionLimits
from headrace.config.keys.network import NetworkKeys
from headrace.config.listeners import METRICS_LISTENER
from headrace.security.identity import LOCAL_LISTENER

_NOTHING_ALTERED = ConnectionLimits()


class Limits:
    """Bounds of all connections together and of each, as the configuration sets them."""

    def __init__(self, config: NetworkKeys, single: ConnectionLimits = _NOTHING_ALTERED) -> None:
        """`single`: those of single addresses and listeners."""
        self.frame_bytes_max = config.socket_request_max_bytes
        queued_bytes = config.queued_max_request_bytes
        self.request_bytes_max = queued_bytes if queued_bytes >= 0 else 1 << 62
        self.connections_max = config.max_connections
        self.connections_per_address_max = config.max_connections_per_ip
        self.address_connections_max = single.of_addresses
        self.listener_connections_max = single.of_listeners
        self.spared_listeners = single.for_brokers | {LOCAL_LISTENER}
        """Brokers and local administrators come by them: `connections_max` keeps none out."""
        self.listeners_apart = {METRICS_LISTENER: HTTP_CONNECTIONS_MAX}
        """Listeners with places of their own, so many: no other bound or rate of connections holds
        there, and none of theirs counts elsewhere."""
        self.begin_unknown = single.begin_unknown
        """The listeners whose connections are strangers until they have shown who they are."""
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
"""Of `metrics.listener`, at one time: it is scraped however many clients there are."""

AUTHENTICATION_FRAME_BYTES_MAX = 512 << 10
"""The longest frame of whoever has not authenticated yet, where he must; Kafka's
sasl.server.max.receive.size."""

UNREAD_FACTOR_MAX = 4
"""How many times the bytes that a client may leave unread may be pushed to it all the same."""

STRANGERS_MIN = 16
"""So many may authenticate at a time, however few connections there may be."""

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

HANDSHAKE_BYTES_MAX = 128 << 10
"""What a client may send in one handshake: a chain of certificates, and not much more."""

HANDSHAKES_LOGGED_PER_SECOND = 5
"""Failed handshakes that are logged one by one."""

ENCRYPT_BYTES = RECEIVE_BYTES = 64 << 10
"""What is encrypted, or received to be decrypted, at a time: so much the memory that OpenSSL keeps
for it on each connection grows to."""
