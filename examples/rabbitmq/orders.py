"""Orders over both protocols: published with pika, read by a Kafka consumer.

    python -m examples.rabbitmq.orders place 7 8 9
    python -m examples.rabbitmq.orders read -b 127.0.0.1:9092 --count 3

A durable queue is a topic: its messages' bodies are the records' values, their routing keys the
keys. Reading takes nothing out of the queue: a shop's services work the queue as before, and
whoever counts orders reads along.
"""

import json
from contextlib import closing

import pika
from confluent_kafka import Consumer, KafkaException

from examples.rabbitmq.connection import Channel, channel_to, parser

QUEUE = "orders"
TOPIC = "__amqp.queue.orders"
"""The topic of the queue `orders` of the virtual host `/`."""
READ_SECONDS_MAX = 20.0


def place(channel: Channel, orders: list[int]) -> None:
    """Publish orders; returns when the broker holds them all."""
    channel.queue_declare(QUEUE, durable=True)
    channel.confirm_delivery()
    properties = pika.BasicProperties(delivery_mode=2, content_type="application/json")
    for order in orders:
        channel.basic_publish("", QUEUE, json.dumps({"order": order}).encode(), properties)
        print(f"placed order {order}")


def read(bootstrap: str, count: int) -> list[int]:
    """Return so many orders, from the first on. TimeoutError."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "order-counters",
        "auto.offset.reset": "earliest",
    }
    found: list[int] = []
    with closing(Consumer(settings)) as consumer:
        consumer.subscribe([TOPIC])
        while len(found) < count:
            record = consumer.poll(READ_SECONDS_MAX)
            if record is None:
                raise TimeoutError(f"{len(found)} of {count} orders came")
            if record.error():
                raise KafkaException(record.error())
            found.append(json.loads(record.value())["order"])
    return found


def main() -> None:
    """Place orders, or read them."""
    given = parser(__doc__)
    given.add_argument("-b", "--bootstrap", default="127.0.0.1:9092", help="for Kafka's clients")
    given.add_argument("--count", type=int, default=1, help="how many to wait for")
    given.add_argument("what", choices=("place", "read"))
    given.add_argument("orders", nargs="*", type=int, metavar="NUMBER")
    arguments = given.parse_args()
    if arguments.what == "place":
        with channel_to(arguments.url) as channel:
            place(channel, arguments.orders)
    else:
        for order in read(arguments.bootstrap, arguments.count):
            print(f"read order {order}")


if __name__ == "__main__":
    main()
