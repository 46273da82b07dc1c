"""Keys of who the broker is, where it listens and what it bears: identity, listeners, limits."""

from headrace.config.value_types import INT_MAX, Definition, Kind, Mode, key

NETWORK: tuple[Definition, ...] = (
    key(
        "broker.id",
        Kind.INT,
        -1,
        "This broker's id in the cluster. -1: the id in the log directory's meta.properties, or 0"
        " in an empty one.",
        at_least=-1,
    ),
    key(
        "node.id",
        Kind.INT,
        None,
        "Another name for broker.id, the one Kafka uses without ZooKeeper; set, it wins.",
        at_least=0,
    ),
    key(
        "broker.rack",
        Kind.STRING,
        None,
        "Where this broker stands. Shown to clients, so that they can read from near replicas.",
    ),
    key(
        "listeners",
        Kind.LIST,
        ("PLAINTEXT://127.0.0.1:9092",),
        "Where to listen: NAME://host:port, several with commas. An empty host or 0.0.0.0 means all"
        " interfaces, port 0 any free port. Kafka's default is all interfaces; here nothing is open"
        " to others unless it is said.",
    ),
    key(
        "advertised.listeners",
        Kind.LIST,
        None,
        "Addresses told to clients, by the listeners' names; those not named are told as in"
        " listeners.",
    ),
    key(
        "listener.security.protocol.map",
        Kind.LIST,
        ("PLAINTEXT:PLAINTEXT", "SSL:SSL", "SASL_PLAINTEXT:SASL_PLAINTEXT", "SASL_SSL:SASL_SSL"),
        "Which security protocol each listener name speaks, as NAME:PROTOCOL.",
    ),
    key(
        "controller.listener.names",
        Kind.LIST,
        (),
        "Listener names that Kafka's KRaft controllers use. Headrace has no such listener and does"
        " not open these.",
    ),
    key(
        "socket.send.buffer.bytes",
        Kind.INT,
        -1,
        "SO_SNDBUF of a client's socket; -1 leaves the choice to the operating system. Kafka's"
        " default of 102400 keeps a consumer of large batches waiting.",
        at_least=-1,
    ),
    key(
        "socket.receive.buffer.bytes",
        Kind.INT,
        -1,
        "SO_RCVBUF of a client's socket; -1 leaves the choice to the operating system. Kafka's"
        " default of 102400 costs an eighth more CPU a GB of 1 MB batches.",
        at_least=-1,
    ),
    key(
        "socket.request.max.bytes",
        Kind.INT,
        104857600,
        "The largest request; an announcement of more closes the connection before anything is"
        " allocated.",
        at_least=1,
    ),
    key(
        "socket.listen.backlog.size",
        Kind.INT,
        INT_MAX,
        "Connections the operating system may hold until they are accepted; never more than its own"
        " limit (net.core.somaxconn), which is the default. With Kafka's 50 some of many that"
        " connect at once find no place left, and wait a second.",
        at_least=1,
    ),
    key(
        "max.connections",
        Kind.INT,
        10000,
        "Connections at one time, over all listeners; more are closed at once. Kafka's default has"
        " no bound.",
        at_least=1,
        mode=Mode.CLUSTER_WIDE,
    ),
    key(
        "max.connections.per.ip",
        Kind.INT,
        INT_MAX,
        "Connections at one time from one address; more are closed at once.",
        at_least=0,
        mode=Mode.CLUSTER_WIDE,
    ),
    key(
        "max.connection.creation.rate",
        Kind.INT,
        INT_MAX,
        "New connections in a second, over all listeners; more wait until they are let in.",
        at_least=0,
        mode=Mode.CLUSTER_WIDE,
    ),
    key(
        "connections.max.idle.ms",
        Kind.LONG,
        600_000,
        "A connection on which nothing happens for this long is closed; negative: never.",
    ),
    key(
        "queued.max.request.bytes",
        Kind.LONG,
        268_435_456,
        "Bytes of requests being read or answered, over all connections; at the bound sockets are"
        " read no further. Kafka's default has no bound; -1 asks for that.",
        at_least=-1,
    ),
    key(
        "fetch.max.bytes",
        Kind.INT,
        57_671_680,
        "The most one Fetch is answered with, whatever it asks for; the first batch always goes.",
        at_least=1024,
    ),
    key(
        "max.incremental.fetch.session.cache.slots",
        Kind.INT,
        1000,
        "Fetch sessions kept; clients beyond fetch without one.",
        at_least=0,
    ),
    key(
        "quota.window.num",
        Kind.INT,
        11,
        "Windows that a client's rate is measured over, for its quotas.",
        at_least=1,
    ),
    key(
        "quota.window.size.seconds",
        Kind.INT,
        1,
        "How long each of those windows is.",
        at_least=1,
    ),
    key(
        "controller.quota.window.num",
        Kind.INT,
        11,
        "Windows for which permits to create and delete partitions can be saved up"
        " (controller_mutation_rate).",
        at_least=1,
    ),
    key(
        "controller.quota.window.size.seconds",
        Kind.INT,
        1,
        "How long each of those windows is.",
        at_least=1,
    ),
    key(
        "telemetry.max.bytes",
        Kind.INT,
        1_048_576,
        "The largest push of a client's metrics, compressed and not.",
        at_least=1,
    ),
    key(
        "max.request.partition.size.limit",
        Kind.INT,
        2000,
        "Partitions in one answer to DescribeTopicPartitions.",
        at_least=1,
    ),
)
