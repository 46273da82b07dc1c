"""The broker's settings for clients of AMQP: `amqp.*`."""

from headrace.config.keys.row import Keys, key
from headrace.config.value_types import Kind


class AmqpKeys(Keys):
    """Settings of AMQP listeners (`amqp.*`), with the defaults of RabbitMQ."""

    amqp_advertised_version = key(
        Kind.STRING,
        "4.0.5",
        "The version of RabbitMQ that AMQP clients are told. Some clients choose features by"
        " it: kombu, and so Celery, uses prefetch limits for whole channels below 4.0.",
        form=(r"\d+\.\d+\.\d+([-+.]\S*)?", "MAJOR.MINOR.PATCH"),
    )
    amqp_channel_max = key(
        Kind.INT,
        2047,
        "The most channels that an AMQP client may open on one connection; the protocol allows"
        " at most 65535.",
        at_least=1,
    )
    amqp_channel_consumers_max = key(
        Kind.INT,
        0,
        "The most consumers on one AMQP channel, as RabbitMQ's consumer_max_per_channel. 0: no"
        " limit, as in RabbitMQ; all consumers together may use half of amqp.memory.bytes.max,"
        " about 1 KB each.",
        at_least=0,
    )
    amqp_channel_unacked_max = key(
        Kind.INT,
        200_000,
        "The most unacknowledged deliveries on one AMQP channel whose client sets no prefetch"
        " limit. At the limit nothing is delivered to its consumers until some are acknowledged or"
        " rejected. Each delivery takes some 250 bytes of memory. RabbitMQ has no such limit.",
        at_least=1,
    )
    amqp_consumer_timeout_ms = key(
        Kind.LONG,
        1_800_000,
        "How long an AMQP delivery may stay unacknowledged, as RabbitMQ's consumer_timeout."
        " Then its channel is closed and its deliveries are requeued. 0: no timeout. A queue's"
        " x-consumer-timeout has precedence. Checked at least once a minute.",
        at_least=0,
    )
    amqp_disk_free_bytes_min = key(
        Kind.LONG,
        50_000_000,
        "While a directory of log.dirs has less free space, AMQP publishers are blocked"
        " (connection.blocked), as with RabbitMQ's disk_free_limit. 0: never.",
        at_least=0,
    )
    amqp_frame_max_bytes = key(
        Kind.INT,
        131072,
        "The largest AMQP frame, in both directions. Larger messages are split into several"
        " frames. A client may negotiate 4096 and more, or 8192 if amqp.advertised.version is"
        " 4.1 or later, as with RabbitMQ.",
        at_least=4096,
    )
    amqp_guest = key(
        Kind.BOOLEAN,
        False,
        "Accept the user guest, with the password guest or by ANONYMOUS, from this machine"
        " only, as a new RabbitMQ does. For trying out: every program on this machine is then"
        " accepted.",
    )
    amqp_ssl_cert_login_from = key(
        Kind.STRING,
        "distinguished_name",
        "How the certificate of an AMQPS client that uses EXTERNAL names its user:"
        " distinguished_name or common_name, as RabbitMQ's ssl_cert_login_from."
        " ssl.principal.mapping.rules has precedence if set. The listener must request"
        " certificates: listener.name.amqps.ssl.client.auth.",
        words=("distinguished_name", "common_name"),
    )
    amqp_heartbeat_seconds = key(
        Kind.INT,
        60,
        "The heartbeat interval that is proposed to AMQP clients; a connection that is silent"
        " for twice as long is closed. A client may choose another interval. 0: no heartbeats;"
        " the protocol allows at most 65535.",
        at_least=0,
    )
    amqp_memory_bytes_max = key(
        Kind.LONG,
        268_435_456,
        "The most memory for messages of all in-memory queues. From three quarters of it on,"
        " messages are written to files in the first of log.dirs, and read back before they are"
        " delivered. If the disk is too slow or fails, AMQP publishers are blocked"
        " (connection.blocked) until a tenth is free. At twice this value no messages are"
        " accepted. A message in several queues counts in each.",
        at_least=1_048_576,
    )
    amqp_message_max_bytes = key(
        Kind.INT,
        16_777_216,
        "The largest body of an AMQP message, as RabbitMQ's max_message_size.",
        between=(1, 536_870_912),
    )
    amqp_queue_replication_factor = key(
        Kind.INT,
        3,
        "In a cluster, the replicas of a durable classic queue, where there are so many brokers"
        " with an AMQP listener. 1: the queue is on one broker, as in RabbitMQ, and is not"
        " available while that broker is down. Quorum queues and streams have three, or the number"
        " that they are declared with. Existing queues keep theirs.",
        at_least=1,
    )
    amqp_unfinished_bytes_max = key(
        Kind.LONG,
        134_217_728,
        "The most bytes of incomplete publishes of all AMQP clients together: bodies with"
        " frames still to come, and messages of open transactions. Beyond it the connection with"
        " the most is closed. A message of amqp.message.max.bytes always fits.",
        at_least=1,
    )
