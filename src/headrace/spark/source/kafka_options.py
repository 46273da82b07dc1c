"""The `kafka.*` options of the source: used, ignored or forbidden.

The names are those of Kafka's consumer configuration. An option that cannot change which records
are read is accepted, with a warning that it has no effect.
"""

from headrace.client.transport.port import parse_bootstrap
from headrace.spark.errors import OptionError

USED = (
    "bootstrap.servers", "group.id", "client.id", "isolation.level", "fetch.max.bytes",
    "max.partition.fetch.bytes", "fetch.min.bytes", "fetch.max.wait.ms", "request.timeout.ms",
)  # fmt: skip

_ROWS = "rows always carry bytes: decode them with Spark's functions"
FORBIDDEN = {
    "auto.offset.reset": "use startingOffsets, and failOnDataLoss for what is gone",
    "key.deserializer": _ROWS,
    "value.deserializer": _ROWS,
    "key.serializer": _ROWS,
    "value.serializer": _ROWS,
    "enable.auto.commit": "offsets are kept in the query's checkpoint",
    "interceptor.classes": "there is no Java consumer here",
}

IGNORED = frozenset((
    "allow.auto.create.topics", "auto.commit.interval.ms", "auto.include.jmx.reporter",
    "check.crcs", "client.dns.lookup", "client.rack", "connections.max.idle.ms",
    "default.api.timeout.ms", "enable.metrics.push", "exclude.internal.topics",
    "group.instance.id", "group.protocol", "group.remote.assignor", "heartbeat.interval.ms",
    "internal.leave.group.on.close", "max.poll.interval.ms", "max.poll.records",
    "metadata.max.age.ms", "metadata.recovery.rebootstrap.trigger.ms",
    "metadata.recovery.strategy", "metric.reporters",
    "metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms",
    "partition.assignment.strategy", "receive.buffer.bytes", "reconnect.backoff.max.ms",
    "reconnect.backoff.ms", "retry.backoff.max.ms", "retry.backoff.ms", "security.providers",
    "send.buffer.bytes", "session.timeout.ms", "socket.connection.setup.timeout.max.ms",
    "socket.connection.setup.timeout.ms",
))  # fmt: skip

OTHERS = {
    "topic": "names where rows are written to; subscribe names what is read",
    "path": "a topic has none; subscribe names what is read",
    "spark.sql.streaming.kafka.usedeprecatedoffsetfetching": (
        "offsets are always asked for without a consumer: leave it out"
    ),
}
"""Options of other formats or of the sink, in lower case, with advice."""


def checked_bootstrap(text: str | None) -> str:
    """Return the bootstrap addresses after validation; OptionError if they are missing or
    invalid."""
    if not text:
        raise OptionError("kafka.bootstrap.servers: missing; for example 127.0.0.1:9092")
    try:
        parse_bootstrap(text)
    except ValueError as error:
        raise OptionError(f"kafka.bootstrap.servers: {error}") from None
    return text
