"""Keys that are ours: Kafka does not know them."""

from headrace.config.value_types import Definition, Kind, Mode, key

HEADRACE: tuple[Definition, ...] = (
    key(
        "log.flush.on.ack",
        Kind.BOOLEAN,
        True,
        "true: acks=all is answered, and a record becomes visible, when it is on the disk of every"
        " in-sync replica. false: Kafka's behaviour, page cache and replication.",
        mode=Mode.CLUSTER_WIDE,
        ours=True,
    ),
    key(
        "log.flush.strategy",
        Kind.STRING,
        "auto",
        "How files that wait for a flush are flushed together: one by one by fdatasync, side by"
        " side by the kernel's asynchronous I/O (aio), all by one syncfs, or auto: by their number"
        " and size, and by what has been quicker lately.",
        words=("auto", "fdatasync", "aio", "syncfs"),
        ours=True,
    ),
    key(
        "log.scrub.bytes.per.second",
        Kind.LONG,
        4 << 20,
        "How fast each log directory is read through for damaged batches, in the background."
        " 0: not at all.",
        at_least=0,
        ours=True,
    ),
    key(
        "log.scrub.interval.ms",
        Kind.LONG,
        7 * 86_400_000,
        "How often everything is read through; no faster than log.scrub.bytes.per.second allows.",
        at_least=1000,
        ours=True,
    ),
    key(
        "insecure.listeners",
        Kind.BOOLEAN,
        False,
        "Allow listeners that other machines reach without encryption and authentication; the"
        " command's --insecure sets it.",
        ours=True,
    ),
    key(
        "metrics.listener",
        Kind.STRING,
        "",
        "host:port of the HTTP endpoint with /metrics for Prometheus and /healthz; empty: none.",
        ours=True,
    ),
    key(
        "telemetry.series.max",
        Kind.INT,
        1000,
        "Series of clients' pushed metrics that /metrics shows at most; numbers beyond are dropped"
        " and counted.",
        at_least=0,
        ours=True,
    ),
    key(
        "log.level",
        Kind.STRING,
        "info",
        "Least severe lines of the broker's own log that are written.",
        words=("debug", "info", "warning", "error"),
        ours=True,
    ),
    key(
        "connection.first.request.ms",
        Kind.INT,
        10_000,
        "A new connection that has not sent a whole request after this long is closed.",
        at_least=100,
        ours=True,
    ),
    key(
        "connection.request.receive.ms",
        Kind.INT,
        120_000,
        "A request that is not whole this long after its first byte ends its connection.",
        at_least=1000,
        ours=True,
    ),
    key(
        "connection.requests.max",
        Kind.INT,
        256,
        "Requests of one connection that wait for their answers; at the bound its socket is read no"
        " further.",
        at_least=1,
        ours=True,
    ),
    key(
        "connection.answer.bytes.max",
        Kind.INT,
        4_194_304,
        "Answer bytes of one connection that its client has not taken; at the bound its socket is"
        " read no further.",
        at_least=65_536,
        ours=True,
    ),
    key(
        "connection.slow.reader.ms",
        Kind.INT,
        60_000,
        "A client that takes nothing of a waiting answer for this long is disconnected.",
        at_least=1000,
        ours=True,
    ),
    key(
        "record.batch.inflated.bytes.max",
        Kind.INT,
        67_108_864,
        "The most a compressed batch may grow to where the broker has to look into it.",
        at_least=1_048_576,
        ours=True,
    ),
    key(
        "log.open.files.max",
        Kind.INT,
        2_000,
        "Files of logs that are open at a time; those not used lately are closed and opened again"
        " when they are needed.",
        at_least=16,
        ours=True,
    ),
    key(
        "partitions.per.topic.max",
        Kind.INT,
        10_000,
        "Partitions one topic may have.",
        at_least=1,
        mode=Mode.CLUSTER_WIDE,
        ours=True,
    ),
    key(
        "partitions.max",
        Kind.INT,
        100_000,
        "Partitions of all topics together.",
        at_least=1,
        mode=Mode.CLUSTER_WIDE,
        ours=True,
    ),
    key(
        "groups.max",
        Kind.INT,
        100_000,
        "Consumer groups that are remembered; a join beyond is refused.",
        at_least=1,
        mode=Mode.CLUSTER_WIDE,
        ours=True,
    ),
    key(
        "producers.per.partition.max",
        Kind.INT,
        100_000,
        "Idempotent producers a partition remembers; the one that wrote least recently is forgotten"
        " for a new one.",
        at_least=1,
        ours=True,
    ),
)
