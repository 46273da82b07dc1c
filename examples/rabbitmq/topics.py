"""Topics: a queue gets what has a key of the form it is bound by.

    python -m examples.rabbitmq.topics listen '*.orange.*'               in one terminal
    python -m examples.rabbitmq.topics listen '*.*.rabbit' 'lazy.#'      in another
    python -m examples.rabbitmq.topics emit

A key is words between dots, here an animal's speed, colour and kind. `*` stands for one word, `#`
for any number of them, none too. `emit` publishes eight keys; the first listener gets three of
them, the second five, each once however many of its forms match.
"""

from examples.rabbitmq.connection import Channel, Delivery, channel_to, consume, parser

EXCHANGE = "animals"
KEYS = (
    "quick.orange.rabbit",
    "lazy.orange.elephant",
    "quick.orange.fox",
    "lazy.brown.fox",
    "lazy.pink.rabbit",
    "orange",  # one word: neither wants it
    "quick.orange.male.rabbit",  # four words: neither wants it
    "lazy.orange.male.rabbit",  # four words too, but it begins with `lazy`
)


def listen(channel: Channel, patterns: list[str]) -> None:
    """Print the keys of what matches one of the patterns."""

    def _print(_: Channel, delivery: Delivery, *__: object) -> None:
        print(delivery.routing_key, flush=True)

    channel.exchange_declare(EXCHANGE, "topic")
    queue = channel.queue_declare("", exclusive=True).method.queue
    for pattern in patterns:
        channel.queue_bind(queue, EXCHANGE, pattern)
    consume(channel, queue, _print, auto_ack=True)


def emit(channel: Channel) -> None:
    """Publish an animal of each key."""
    channel.exchange_declare(EXCHANGE, "topic")
    for key in KEYS:
        channel.basic_publish(EXCHANGE, key, b"an animal")


def main() -> None:
    """Listen, or emit."""
    given = parser(__doc__)
    given.add_argument("what", choices=("listen", "emit"))
    given.add_argument("patterns", nargs="*", metavar="PATTERN")
    arguments = given.parse_args()
    with channel_to(arguments.url) as channel:
        if arguments.what == "listen":
            listen(channel, arguments.patterns)
        else:
            emit(channel)


if __name__ == "__main__":
    main()
