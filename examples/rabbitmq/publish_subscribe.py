"""Publish and subscribe: everybody who listens hears everything.

    python -m examples.rabbitmq.publish_subscribe listen         in two terminals
    python -m examples.rabbitmq.publish_subscribe emit "it rains"

A publisher knows an exchange only, here of the type fanout. Each listener binds a queue of its own
to it, named by the broker and gone with the listener: what was said before is not heard.
"""

from examples.rabbitmq.connection import Channel, Delivery, Properties, channel_to, consume, parser

EXCHANGE = "news"


def listen(channel: Channel) -> None:
    """Print what is said."""

    def _print(_: Channel, __: Delivery, ___: Properties, body: bytes) -> None:
        print(body.decode(), flush=True)

    channel.exchange_declare(EXCHANGE, "fanout")
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(queue, EXCHANGE)
    consume(channel, queue, _print, auto_ack=True)


def emit(channel: Channel, news: list[str]) -> None:
    """Say something to all."""
    channel.exchange_declare(EXCHANGE, "fanout")
    for text in news:
        channel.basic_publish(EXCHANGE, "", text.encode())


def main() -> None:
    """Listen, or emit."""
    given = parser(__doc__)
    given.add_argument("what", choices=("listen", "emit"))
    given.add_argument("news", nargs="*", metavar="TEXT")
    arguments = given.parse_args()
    with channel_to(arguments.url) as channel:
        if arguments.what == "listen":
            listen(channel)
        else:
            emit(channel, arguments.news)


if __name__ == "__main__":
    main()
