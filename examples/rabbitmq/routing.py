"""Routing: a queue gets what has one of the keys it is bound by.

    python -m examples.rabbitmq.routing listen orange            in one terminal
    python -m examples.rabbitmq.routing listen black green       in another
    python -m examples.rabbitmq.routing emit orange black white

An exchange of the type direct compares whole keys. What nobody has bound is dropped: `emit` says
so, because it publishes with `mandatory` and waits for the broker's confirm.
"""

from pika.exceptions import UnroutableError

from examples.rabbitmq.connection import Channel, Delivery, Properties, channel_to, consume, parser

EXCHANGE = "colours"


def listen(channel: Channel, keys: list[str]) -> None:
    """Print what comes by these keys."""

    def _print(_: Channel, delivery: Delivery, __: Properties, body: bytes) -> None:
        print(f"{delivery.routing_key}: {body.decode()}", flush=True)

    channel.exchange_declare(EXCHANGE, "direct")
    queue = channel.queue_declare("", exclusive=True).method.queue
    for key in keys:
        channel.queue_bind(queue, EXCHANGE, key)
    consume(channel, queue, _print, auto_ack=True)


def emit(channel: Channel, keys: list[str]) -> None:
    """Publish a message by each key."""
    channel.exchange_declare(EXCHANGE, "direct")
    channel.confirm_delivery()
    for key in keys:
        try:
            channel.basic_publish(EXCHANGE, key, f"something {key}".encode(), mandatory=True)
            print(f"{key} is on its way")
        except UnroutableError:
            print(f"nobody wants {key}")


def main() -> None:
    """Listen, or emit."""
    given = parser(__doc__)
    given.add_argument("what", choices=("listen", "emit"))
    given.add_argument("keys", nargs="+", metavar="KEY")
    arguments = given.parse_args()
    with channel_to(arguments.url) as channel:
        if arguments.what == "listen":
            listen(channel, arguments.keys)
        else:
            emit(channel, arguments.keys)


if __name__ == "__main__":
    main()
