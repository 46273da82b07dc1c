"""The broker's settings for clients of AMQP: `amqp.*`."""

from headrace.config.keys.row import Keys, key
from headrace.config.value_types import Kind


class AmqpKeys(Keys):
    """What a broker proposes to clients of AMQP, by RabbitMQ's defaults."""

    amqp_advertised_version = key(
        Kind.STRING,
        "4.0.5",
        "The version of RabbitMQ that clients of AMQP are told. Some choose by it what they ask"
        " for: kombu, and so Celery, asks for prefetch limits of whole channels below 4.0.",
        form=(r"\d+\.\d+\.\d+([-+.]\S*)?", "MAJOR.MINOR.PATCH"),
    )
    amqp_channel_max = key(
        Kind.INT,
        2047,
        "Most channels that a client of AMQP may have open on one connection; the"
        " protocol knows at most 65535.",
        at_least=1,
    )
    amqp_channel_consumers_max = key(
        Kind.INT,
        0,
        "Most consumers of one channel of AMQP, as RabbitMQ's consumer_max_per_channel. 0: any"
        " number, as with RabbitMQ; all consumers together may take half of amqp.memory.bytes.max,"
        " about 1 KB each.",
        at_least=0,
    )
    amqp_channel_unacked_max = key(
        Kind.INT,
        200_000,
        "Most deliveries that the consumers of one channel of AMQP may hold unacknowledged where"
        " its client sets no prefetch limit; then they are given no more until some are settled."
        " Each takes some 250 bytes of memory. RabbitMQ has no such bound.",
        at_least=1,
    )
    amqp_consumer_timeout_ms = key(
        Kind.LONG,
        1_800_000,
        "How long a delivery of AMQP may wait for its acknowledgement before its channel is closed"
        " and what it held goes back to the queue, as RabbitMQ's consumer_timeout. 0: for ever. A"
        " queue's x-consumer-timeout goes before it. It is looked at once a minute at least.",
        at_least=0,
    )
    amqp_disk_free_bytes_min = key(
        Kind.LONG,
        50_000_000,
        "While a directory of log.dirs has less free space, clients of AMQP that publish are told"
        " so (connection.blocked) and read no further, as RabbitMQ's disk_free_limit. 0: never.",
        at_least=0,
    )
    amqp_frame_max_bytes = key(
        Kind.INT,
        131072,
        "The largest frame of AMQP, in both directions. Messages may be larger: they come and go in"
        " several. A client may agree to 4096 and more, or 8192 where amqp.advertised.version is"
        " 4.1 or later, as with RabbitMQ.",
        at_least=4096,
    )
    amqp_guest = key(
        Kind.BOOLEAN,
        False,
        "Let the user guest in, with the password guest or by ANONYMOUS, from this machine alone,"
        " as a fresh RabbitMQ does. For trying out: whoever runs anything on this machine is then"
        " let in.",
    )
    amqp_ssl_cert_login_from = key(
        Kind.STRING,
        "distinguished_name",
        "Which user a client of AMQPS is who shows a certificate and asks for EXTERNAL: by its"
        " distinguished_name or its common_name, as RabbitMQ's ssl_cert_login_from."
        " ssl.principal.mapping.rules, where they are set, go first. The listener must ask for"
        " certificates: listener.name.amqps.ssl.client.auth.",
        words=("distinguished_name", "common_name"),
    )
    amqp_heartbeat_seconds = key(
        Kind.INT,
        60,
        "How often clients of AMQP are proposed to show that they live; after twice as long without"
        " a sign a connection is ended. A client may choose another interval. 0: never; the"
        " protocol knows at most 65535.",
        at_least=0,
    )
    amqp_memory_bytes_max = key(
        Kind.LONG,
        268_435_456,
        "What the messages of all queues in memory may take there. From three quarters of it on"
        " messages are written to files in the first of log.dirs, and read back when they are next."
        " Where the disk does not keep up, or takes nothing, clients of AMQP that publish are told"
        " so (connection.blocked) and read no further, until a tenth is free. At twice as much"
        " nothing more is taken. A message in several queues counts in each.",
        at_least=1_048_576,
    )
    amqp_message_max_bytes = key(
        Kind.INT,
        16_777_216,
        "The largest body of a message of AMQP, as RabbitMQ's max_message_size.",
        between=(1, 536_870_912),
    )
    amqp_unfinished_bytes_max = key(
        Kind.LONG,
        134_217_728,
        "What all clients of AMQP together may have begun to publish and not finished: bodies of"
        " which more frames are to come, and messages of transactions. Beyond it the connection"
        " that has begun most is closed. A message of amqp.message.max.bytes always has room.",
        at_least=1,
    )
