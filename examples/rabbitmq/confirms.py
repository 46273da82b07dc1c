"""Confirms: a publisher learns what became of each message.

    python -m examples.rabbitmq.confirms

A confirm says that the broker holds the message, or has given it to nobody because nobody wanted
it. Who wants to know that, too, publishes with `mandatory`. A queue that is full and set to refuse
has the publisher told.
"""

import pika
from pika.exceptions import NackError, UnroutableError

from examples.rabbitmq.connection import Channel, channel_to, parser

QUEUE = "payments"
AT_MOST = {"x-max-length": 3, "x-overflow": "reject-publish"}
PERSISTENT = pika.BasicProperties(delivery_mode=2)


def publish(channel: Channel, queue: str, text: str) -> None:
    """Publish, and say what became of it: pika waits for the confirm."""
    try:
        channel.basic_publish("", queue, text.encode(), PERSISTENT, mandatory=True)
        print(f"{text}: the broker has it")
    except UnroutableError:
        print(f"{text}: there is no queue for it")
    except NackError:
        print(f"{text}: the queue is full")


def main() -> None:
    """Publish more than is wanted."""
    arguments = parser(__doc__).parse_args()
    with channel_to(arguments.url) as channel:
        channel.queue_delete(QUEUE)
        channel.queue_declare(QUEUE, durable=True, arguments=AT_MOST)
        channel.confirm_delivery()
        for number in range(5):
            publish(channel, QUEUE, f"payment {number}")
        publish(channel, "no-such-queue", "payment 5")
        channel.queue_delete(QUEUE)


if __name__ == "__main__":
    main()
