"""Keys of what clients of AMQP are told and held to."""

from headrace.config.keys.row import Keys, key
from headrace.config.value_types import Kind


class AmqpKeys(Keys):
    """What a broker proposes to clients of AMQP, by RabbitMQ's defaults."""

    amqp_advertised_version = key(
        Kind.STRING,
        "4.0.5",
        "The version of RabbitMQ that clients of AMQP are told. Some choose by it what they ask"
        " for: kombu, and so Celery, asks for prefetch limits of whole channels below 4.0.",
    )
    amqp_channel_max = key(
        Kind.INT,
        2047,
        "Most channels that a client of AMQP may have open on one connection; the"
        " protocol knows at most 65535.",
        at_least=1,
    )
    amqp_frame_max_bytes = key(
        Kind.INT,
        131072,
        "The largest frame of AMQP, in both directions. Messages may be larger: they come and go in"
        " several.",
        at_least=4096,
    )
    amqp_guest = key(
        Kind.BOOLEAN,
        False,
        "Let the user guest with the password guest in, from this machine alone, as a fresh"
        " RabbitMQ does. For trying out: whoever runs anything on this machine is then let in.",
    )
    amqp_heartbeat_seconds = key(
        Kind.INT,
        60,
        "How often clients of AMQP are proposed to show that they live; after twice as long without"
        " a sign a connection is ended. A client may choose another interval. 0: never; the"
        " protocol knows at most 65535.",
        at_least=0,
    )
    amqp_preview = key(
        Kind.BOOLEAN,
        False,
        "Serve listeners of AMQP though they are a preview: docs/rabbitmq.md says what is missing."
        " Without it a broker with such a listener does not start.",
    )
