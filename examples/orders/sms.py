"""Send a message to the customer of each order: `python -m examples.orders.sms`, with pika.

To a RabbitMQ client the topic `orders` is a stream, whose consumers each read all messages. A
stream has no place to remember what a consumer has read, so the program does: the next offset is
in a file, which is replaced after each message.
"""

import argparse
import json
from contextlib import suppress
from pathlib import Path

from examples.orders.place import TOPIC
from examples.rabbitmq.connection import Channel, channel_to, parser

STREAM = "orders-sms"
"""The stream over the topic, as RabbitMQ clients name it."""
PREFETCH = 10
"""Consumers of a stream need a prefetch."""


def text_of(order: bytes) -> str:
    """Return the message that the customer gets."""
    event = json.loads(order)
    return f"{event['phone']}: thank you for order {event['id']}, {event['sku']}"


def next_offset(file: Path) -> int:
    """Return the offset of the first order without a message; 0 for a new file."""
    return int(file.read_text()) if file.exists() else 0


def remember(file: Path, offset: int) -> None:
    """Write the next offset, so that a crash leaves the old or the new one."""
    fresh = file.with_suffix(".new")
    fresh.write_text(str(offset))
    fresh.replace(file)


def send(channel: Channel, file: Path, count: int | None) -> None:
    """Send messages; None: until Ctrl-C."""
    arguments = {"x-queue-type": "stream", "x-headrace-topic": TOPIC}
    channel.queue_declare(STREAM, durable=True, arguments=arguments)
    channel.basic_qos(prefetch_count=PREFETCH)
    first = {"x-stream-offset": next_offset(file)}
    messages = channel.consume(STREAM, arguments=first)
    for sent, (method, properties, body) in enumerate(messages, start=1):
        print(text_of(body), flush=True)
        remember(file, int((properties.headers or {})["x-stream-offset"]) + 1)
        channel.basic_ack(method.delivery_tag)
        if sent == count:
            break
    channel.cancel()


def command_line() -> argparse.ArgumentParser:
    """Return the program's command line."""
    made = parser(__doc__)
    made.add_argument("--next-offset", type=Path, default=Path("sms.offset"), metavar="FILE")
    made.add_argument("--count", type=int, help="end after so many messages")
    return made


def main() -> None:
    """Send messages until Ctrl-C, or until some were sent."""
    given = command_line().parse_args()
    with channel_to(given.url) as channel, suppress(KeyboardInterrupt):
        send(channel, given.next_offset, given.count)


if __name__ == "__main__":
    main()
