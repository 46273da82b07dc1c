"""Keys of the broker's id, listeners, connection limits, quotas and metrics."""

from headrace.config.keys.row import Keys, combined, key
from headrace.config.listeners import Listener
from headrace.config.value_types import INT_MAX, Kind, Mode
from headrace.model.protocols import KAFKA, ROWS

_OTHERS = [row for row in ROWS if row is not KAFKA]
_OTHER_PROTOCOLS = " ".join(row.listeners_help for row in _OTHERS if row.listeners_help)
_NAMES = [spoken.name for row in _OTHERS for spoken in row.listeners]
_UNNAMED = " and ".join(filter(None, (", ".join(_NAMES[:-1]), _NAMES[-1])))


class NetworkKeys(Keys):
    """Identity, listeners, connections and their limits, quotas, metrics."""

    broker_id = key(
        Kind.INT,
        -1,
        "This broker's id in the cluster. -1: the id in the log directory's meta.properties. In"
        " an empty log directory -1 means 0, or with ZooKeeper an id that no other broker has.",
        at_least=-1,
    )
    node_id: int | None = key(
        Kind.INT,
        None,
        "The name of broker.id in Kafka without ZooKeeper; it has precedence over broker.id.",
        at_least=0,
    )
    broker_rack: str | None = key(
        Kind.STRING,
        None,
        "This broker's rack. Replicas of new partitions are spread over racks. Clients see it,"
        " so that they can read from near replicas.",
    )
    listeners: tuple[Listener, ...] = combined(
        Kind.LIST,
        ("PLAINTEXT://127.0.0.1:9092",),
        "Where to listen: NAME://host:port, separated by commas. An empty host or 0.0.0.0 means"
        f" all interfaces, port 0 any free port. {_OTHER_PROTOCOLS} Kafka's default is all"
        " interfaces; here it is the loopback.",
    )
    advertised_listeners: tuple[Listener, ...] = combined(
        Kind.LIST,
        None,
        "Addresses that clients receive, by listener name. A listener that is not named is"
        " advertised as in listeners.",
    )
    listener_security_protocol_map: tuple[str, ...] = key(
        Kind.LIST,
        ("PLAINTEXT:PLAINTEXT", "SSL:SSL", "SASL_PLAINTEXT:SASL_PLAINTEXT", "SASL_SSL:SASL_SSL"),
        f"The security protocol of each listener name, as NAME:PROTOCOL. {_UNNAMED} need not be"
        " listed.",
    )
    controller_listener_names: tuple[str, ...] = key(
        Kind.LIST,
        (),
        "Listener names that Kafka's KRaft controllers use. Headrace has no such listener and does"
        " not open these.",
    )
    admin_socket: str | None = key(
        Kind.STRING,
        None,
        "The Unix socket for administration on this machine (headrace … -b unix:PATH). A"
        " connection of the broker's own user or of root is User:local and may do everything."
        " Unset: admin.sock in the first log directory. Empty: no socket.",
    )
    socket_send_buffer_bytes = key(
        Kind.INT,
        -1,
        "SO_SNDBUF of client sockets; -1: the operating system's default. Kafka's default of"
        " 102400 delays consumers of large batches.",
        at_least=-1,
    )
    socket_receive_buffer_bytes = key(
        Kind.INT,
        -1,
        "SO_RCVBUF of client sockets; -1: the operating system's default. Kafka's default of"
        " 102400 costs an eighth more CPU per GB of 1 MB batches.",
        at_least=-1,
    )
    socket_request_max_bytes = key(
        Kind.INT,
        104857600,
        "The largest request. A request that announces more closes its connection before memory"
        " is allocated.",
        at_least=1,
    )
    socket_listen_backlog_size = key(
        Kind.INT,
        INT_MAX,
        "The length of the sockets' accept queue; the operating system's limit"
        " (net.core.somaxconn), the default, is its upper bound. With Kafka's 50, some of many"
        " clients that connect at once wait a second.",
        at_least=1,
    )
    max_connections = key(
        Kind.INT,
        10000,
        "The most open connections over all listeners, including those in a TLS handshake."
        " Connections beyond it are closed. Connections between brokers on a listener of their"
        " own are always accepted: the longest idle connection of another listener is closed for"
        " them. Kafka's default is unlimited. Also for one listener:"
        " listener.name.NAME.max.connections.",
        at_least=1,
        mode=Mode.CLUSTER_WIDE,
    )
    max_connections_per_ip = key(
        Kind.INT,
        INT_MAX,
        "The most open connections from one address; further ones are closed at once.",
        at_least=0,
        mode=Mode.CLUSTER_WIDE,
    )
    max_connections_per_ip_overrides = key(
        Kind.STRING,
        "",
        "The same for single addresses: ADDRESS:NUMBER, separated by commas. Host names are not"
        " resolved.",
        mode=Mode.CLUSTER_WIDE,
    )
    max_connection_creation_rate = key(
        Kind.INT,
        INT_MAX,
        "The most new connections per second, over all listeners. Connections beyond it are"
        " delayed, before the TLS handshake. Also for one listener:"
        " listener.name.NAME.max.connection.creation.rate.",
        at_least=0,
        mode=Mode.CLUSTER_WIDE,
    )
    connections_max_idle_ms = key(
        Kind.LONG,
        600_000,
        "A connection without traffic for this long is closed; negative: never.",
    )
    queued_max_request_bytes = key(
        Kind.LONG,
        268_435_456,
        "The most bytes of requests that are being received or processed, over all connections."
        " At the limit the broker stops reading from sockets. Kafka's default is unlimited, as"
        " is -1 here.",
        at_least=-1,
    )
    fetch_max_bytes = key(
        Kind.INT,
        57_671_680,
        "The most bytes in a Fetch response, regardless of the request; the first batch is"
        " always returned.",
        at_least=1024,
    )
    max_incremental_fetch_session_cache_slots = key(
        Kind.INT, 1000, "The most fetch sessions; further clients fetch without one.", at_least=0
    )
    quota_window_num = key(
        Kind.INT,
        11,
        "Number of windows over which a client's rate is measured for its quotas.",
        at_least=1,
    )
    quota_window_size_seconds = key(
        Kind.INT, 1, "Length of each of those windows, in seconds.", at_least=1
    )
    controller_quota_window_num = key(
        Kind.INT,
        11,
        "Number of windows for which the permits of controller_mutation_rate (partitions"
        " created and deleted) can accumulate.",
        at_least=1,
    )
    controller_quota_window_size_seconds = key(
        Kind.INT, 1, "Length of each of those windows, in seconds.", at_least=1
    )
    telemetry_max_bytes = key(
        Kind.INT,
        1_048_576,
        "The largest push of a client's metrics, compressed and uncompressed.",
        at_least=1,
    )
    max_request_partition_size_limit = key(
        Kind.INT,
        2000,
        "The most partitions in one response to DescribeTopicPartitions.",
        at_least=1,
    )

    # Kafka does not know these.
    insecure_listeners = key(
        Kind.BOOLEAN,
        False,
        "Allow listeners without encryption and authentication that other machines can reach;"
        " the flag --insecure sets it.",
        ours=True,
    )
    metrics_listener = key(
        Kind.STRING,
        "",
        "host:port of the HTTP endpoint: /metrics for Prometheus, /healthz, /ready; empty: no"
        " endpoint.",
        ours=True,
    )
    management_listener = key(
        Kind.STRING,
        "",
        "host:port of RabbitMQ's management API: adds MANAGEMENT://host:port to listeners; empty:"
        " nothing is added.",
        ours=True,
    )
    metrics_topics_max = key(
        Kind.INT,
        500,
        "The most topics with metrics of their own in /metrics: those opened first.",
        at_least=0,
        ours=True,
    )
    metrics_queues_max = key(
        Kind.INT,
        500,
        "The most queues with metrics of their own in /metrics: those declared first, without"
        " exclusive ones.",
        at_least=0,
        ours=True,
    )
    metrics_group_lags_max = key(
        Kind.INT,
        1000,
        "The most pairs of group and topic whose lag /metrics shows.",
        at_least=0,
        ours=True,
    )
    telemetry_series_max = key(
        Kind.INT,
        1000,
        "The most series of clients' pushed metrics in /metrics; further ones are dropped and"
        " counted.",
        at_least=0,
        ours=True,
    )
    log_level = key(
        Kind.STRING,
        "info",
        "The least severe level of the broker's log.",
        words=("debug", "info", "warning", "error"),
        ours=True,
    )
    log_format = key(
        Kind.STRING,
        "text",
        "The format of the broker's log and of its output at start: text, a line each; json, an"
        " object per line.",
        words=("text", "json"),
        ours=True,
    )
    max_connections_unauthenticated_percent = key(
        Kind.INT,
        10,
        "The largest percentage of max.connections for clients that have not authenticated, on"
        " listeners with SASL or TLS; at least 16. Beyond it, the oldest connection of the"
        " address with the most of them is closed.",
        between=(1, 100),
        mode=Mode.CLUSTER_WIDE,
        ours=True,
    )
    max_connections_unauthenticated_per_ip = key(
        Kind.INT,
        256,
        "The most unauthenticated connections from one address, including failed ones until"
        " their delay is over. Beyond it, its oldest one that has not failed is closed.",
        at_least=1,
        mode=Mode.CLUSTER_WIDE,
        ours=True,
    )
    connection_handshake_ms = key(
        Kind.INT,
        10_000,
        "How long a TLS handshake may take.",
        at_least=100,
        ours=True,
    )
    connection_authentication_ms = key(
        Kind.INT,
        10_000,
        "How long a client of a SASL listener may take to authenticate, after the TLS handshake"
        " if there is one.",
        at_least=100,
        ours=True,
    )
    connection_first_request_ms = key(
        Kind.INT,
        10_000,
        "A new connection that has not sent a complete request after this long is closed.",
        at_least=100,
        ours=True,
    )
    connection_request_receive_ms = key(
        Kind.INT,
        120_000,
        "A request that is not complete this long after its first byte closes its connection.",
        at_least=1000,
        ours=True,
    )
    connection_requests_max = key(
        Kind.INT,
        256,
        "The most requests of one connection without a response. At the limit the broker stops"
        " reading from its socket.",
        at_least=1,
        ours=True,
    )
    connection_answer_bytes_max = key(
        Kind.INT,
        4_194_304,
        "The most unsent response bytes of one connection. At the limit the broker stops"
        " reading from its socket.",
        at_least=65_536,
        ours=True,
    )
    connection_slow_reader_ms = key(
        Kind.INT,
        60_000,
        "A client that reads nothing of a pending response for this long is disconnected.",
        at_least=1000,
        ours=True,
    )


UNDER_A_LISTENER = frozenset({"max.connections", "max.connection.creation.rate"})
"""Keys that can be set for one listener."""
