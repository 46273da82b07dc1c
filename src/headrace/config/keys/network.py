"""Keys of who the broker is, where it listens, what it bears and what it tells."""

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
        "This broker's id in the cluster. -1: the id in the log directory's meta.properties; in an"
        " empty one 0, or with ZooKeeper one that no other broker was given.",
        at_least=-1,
    )
    node_id: int | None = key(
        Kind.INT,
        None,
        "Another name for broker.id, the one Kafka uses without ZooKeeper; set, it wins.",
        at_least=0,
    )
    broker_rack: str | None = key(
        Kind.STRING,
        None,
        "Where this broker stands. Replicas of new partitions go to different racks; shown to"
        " clients, so that they can read from near replicas.",
    )
    listeners: tuple[Listener, ...] = combined(
        Kind.LIST,
        ("PLAINTEXT://127.0.0.1:9092",),
        "Where to listen: NAME://host:port, several with commas. An empty host or 0.0.0.0 means"
        f" all interfaces, port 0 any free port. {_OTHER_PROTOCOLS} Kafka's default is all"
        " interfaces; here nothing is open to others unless it is said.",
    )
    advertised_listeners: tuple[Listener, ...] = combined(
        Kind.LIST,
        None,
        "Addresses told to clients, by the listeners' names; those not named are told as in"
        " listeners.",
    )
    listener_security_protocol_map: tuple[str, ...] = key(
        Kind.LIST,
        ("PLAINTEXT:PLAINTEXT", "SSL:SSL", "SASL_PLAINTEXT:SASL_PLAINTEXT", "SASL_SSL:SASL_SSL"),
        f"Which security protocol each listener name speaks, as NAME:PROTOCOL. {_UNNAMED} need not"
        " be named.",
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
        "The Unix socket for administration on this machine: who connects to it as the broker's own"
        " user, or as root, is User:local and may do everything (headrace … -b unix:PATH). Unset:"
        " admin.sock in the first log directory. Empty: there is none.",
    )
    socket_send_buffer_bytes = key(
        Kind.INT,
        -1,
        "SO_SNDBUF of a client's socket; -1 leaves the choice to the operating system. Kafka's"
        " default of 102400 keeps a consumer of large batches waiting.",
        at_least=-1,
    )
    socket_receive_buffer_bytes = key(
        Kind.INT,
        -1,
        "SO_RCVBUF of a client's socket; -1 leaves the choice to the operating system. Kafka's"
        " default of 102400 costs an eighth more CPU a GB of 1 MB batches.",
        at_least=-1,
    )
    socket_request_max_bytes = key(
        Kind.INT,
        104857600,
        "The largest request; an announcement of more closes the connection before anything is"
        " allocated.",
        at_least=1,
    )
    socket_listen_backlog_size = key(
        Kind.INT,
        INT_MAX,
        "Connections the operating system may hold until they are accepted; never more than its own"
        " limit (net.core.somaxconn), which is the default. With Kafka's 50 some of many that"
        " connect at once find no place left, and wait a second.",
        at_least=1,
    )
    max_connections = key(
        Kind.INT,
        10000,
        "Connections at one time, over all listeners, TLS handshakes under way included; more are"
        " closed at once. Those between brokers are let in all the same, where they have a listener"
        " of their own: the connection that was silent longest on another one makes room. Kafka's"
        " default has no bound. Also for one listener: listener.name.NAME.max.connections.",
        at_least=1,
        mode=Mode.CLUSTER_WIDE,
    )
    max_connections_per_ip = key(
        Kind.INT,
        INT_MAX,
        "Connections at one time from one address; more are closed at once.",
        at_least=0,
        mode=Mode.CLUSTER_WIDE,
    )
    max_connections_per_ip_overrides = key(
        Kind.STRING,
        "",
        "The same for single addresses: ADDRESS:NUMBER, several with commas. Names are not looked"
        " up.",
        mode=Mode.CLUSTER_WIDE,
    )
    max_connection_creation_rate = key(
        Kind.INT,
        INT_MAX,
        "New connections in a second, over all listeners; more wait until they are let in, those of"
        " TLS before their handshake. Also for one listener:"
        " listener.name.NAME.max.connection.creation.rate.",
        at_least=0,
        mode=Mode.CLUSTER_WIDE,
    )
    connections_max_idle_ms = key(
        Kind.LONG,
        600_000,
        "A connection on which nothing happens for this long is closed; negative: never.",
    )
    queued_max_request_bytes = key(
        Kind.LONG,
        268_435_456,
        "Bytes of requests being read or answered, over all connections; at the bound sockets are"
        " read no further. Kafka's default has no bound; -1 asks for that.",
        at_least=-1,
    )
    fetch_max_bytes = key(
        Kind.INT,
        57_671_680,
        "The most one Fetch is answered with, whatever it asks for; the first batch always goes.",
        at_least=1024,
    )
    max_incremental_fetch_session_cache_slots = key(
        Kind.INT, 1000, "Fetch sessions kept; clients beyond fetch without one.", at_least=0
    )
    quota_window_num = key(
        Kind.INT, 11, "Windows that a client's rate is measured over, for its quotas.", at_least=1
    )
    quota_window_size_seconds = key(Kind.INT, 1, "How long each of those windows is.", at_least=1)
    controller_quota_window_num = key(
        Kind.INT,
        11,
        "Windows for which permits to create and delete partitions can be saved up"
        " (controller_mutation_rate).",
        at_least=1,
    )
    controller_quota_window_size_seconds = key(
        Kind.INT, 1, "How long each of those windows is.", at_least=1
    )
    telemetry_max_bytes = key(
        Kind.INT,
        1_048_576,
        "The largest push of a client's metrics, compressed and not.",
        at_least=1,
    )
    max_request_partition_size_limit = key(
        Kind.INT, 2000, "Partitions in one answer to DescribeTopicPartitions.", at_least=1
    )

    # Kafka does not know these.
    insecure_listeners = key(
        Kind.BOOLEAN,
        False,
        "Allow listeners that other machines reach without encryption and authentication; the"
        " command's --insecure sets it.",
        ours=True,
    )
    metrics_listener = key(
        Kind.STRING,
        "",
        "host:port of the HTTP endpoint: /metrics for Prometheus, /healthz, /ready; empty: none.",
        ours=True,
    )
    metrics_topics_max = key(
        Kind.INT,
        500,
        "Topics of which /metrics shows numbers of their own, at most: the first that were opened.",
        at_least=0,
        ours=True,
    )
    metrics_queues_max = key(
        Kind.INT,
        500,
        "The most queues with metrics of their own in /metrics: those declared first, and no"
        " exclusive ones.",
        at_least=0,
        ours=True,
    )
    metrics_group_lags_max = key(
        Kind.INT,
        1000,
        "Pairs of a group and a topic whose lag /metrics shows at most.",
        at_least=0,
        ours=True,
    )
    telemetry_series_max = key(
        Kind.INT,
        1000,
        "Series of clients' pushed metrics that /metrics shows at most; numbers beyond are dropped"
        " and counted.",
        at_least=0,
        ours=True,
    )
    log_level = key(
        Kind.STRING,
        "info",
        "Least severe lines of the broker's own log that are written.",
        words=("debug", "info", "warning", "error"),
        ours=True,
    )
    log_format = key(
        Kind.STRING,
        "text",
        "How the broker's own log and what is said at its start look: text, a line each; json, an"
        " object a line.",
        words=("text", "json"),
        ours=True,
    )
    max_connections_unauthenticated_percent = key(
        Kind.INT,
        10,
        "How much of max.connections those may take that have not authenticated yet, where they"
        " must or where TLS is spoken; 16 may in any case. Beyond, the oldest of the address with"
        " the most of them makes room.",
        between=(1, 100),
        mode=Mode.CLUSTER_WIDE,
        ours=True,
    )
    max_connections_unauthenticated_per_ip = key(
        Kind.INT,
        256,
        "How many of them may come from one address, failed ones included until their delay is"
        " over. Beyond, the oldest of them that has not failed makes room.",
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
        "How long a client of a SASL listener may take to authenticate, behind the TLS handshake"
        " where there is one.",
        at_least=100,
        ours=True,
    )
    connection_first_request_ms = key(
        Kind.INT,
        10_000,
        "A new connection that has not sent a whole request after this long is closed.",
        at_least=100,
        ours=True,
    )
    connection_request_receive_ms = key(
        Kind.INT,
        120_000,
        "A request that is not whole this long after its first byte ends its connection.",
        at_least=1000,
        ours=True,
    )
    connection_requests_max = key(
        Kind.INT,
        256,
        "Requests of one connection that wait for their answers; at the bound its socket is read"
        " no further.",
        at_least=1,
        ours=True,
    )
    connection_answer_bytes_max = key(
        Kind.INT,
        4_194_304,
        "Answer bytes of one connection that its client has not taken; at the bound its socket is"
        " read no further.",
        at_least=65_536,
        ours=True,
    )
    connection_slow_reader_ms = key(
        Kind.INT,
        60_000,
        "A client that takes nothing of a waiting answer for this long is disconnected.",
        at_least=1000,
        ours=True,
    )


UNDER_A_LISTENER = frozenset({"max.connections", "max.connection.creation.rate"})
"""Keys that a listener may have of its own."""
