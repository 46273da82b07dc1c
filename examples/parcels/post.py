"""Post parcels with pika: `python -m examples.parcels.post ann:1200 bob:350`.

The exchange `parcels` routes each message to the queue `to-pack`, and stores it once in the Kafka
topic `parcels`, because it is declared with `x-headrace-topic`. A worker takes messages out of the
queue; the topic keeps them for its retention, for any number of readers.
"""

import json
from datetime import UTC, datetime

import pika

from examples.rabbitmq.connection import Channel, channel_to, parser

EXCHANGE = TOPIC = "parcels"
QUEUE = "to-pack"
KEY_HEADER = "customer"
"""The header that is the record's key: a customer's parcels stay in order."""


def declare(channel: Channel) -> None:
    """Declare exchange, queue and binding; nothing happens if they are there."""
    arguments = {"x-headrace-topic": TOPIC, "x-headrace-key-header": KEY_HEADER}
    channel.exchange_declare(EXCHANGE, "direct", durable=True, arguments=arguments)
    channel.queue_declare(QUEUE, durable=True)
    channel.queue_bind(QUEUE, EXCHANGE, "new")


def post(channel: Channel, number: int, customer: str, grams: int | None) -> None:
    """Publish a parcel; returns when queue and topic have it on disk."""
    time = datetime.now(UTC).isoformat(timespec="milliseconds")
    parcel = {"id": number, "customer": customer, "grams": grams, "posted_at": time}
    properties = pika.BasicProperties(
        delivery_mode=2, content_type="application/json", headers={KEY_HEADER: customer}
    )
    channel.basic_publish(EXCHANGE, "new", json.dumps(parcel).encode(), properties)


def main() -> None:
    """Post the parcels of the command line."""
    made = parser(__doc__)
    made.add_argument("--first", type=int, default=1, help="number of the first parcel")
    made.add_argument("parcels", nargs="+", metavar="CUSTOMER:GRAMS")
    given = made.parse_args()
    with channel_to(given.url) as channel:
        declare(channel)
        channel.confirm_delivery()
        for number, parcel in enumerate(given.parcels, start=given.first):
            customer, _, grams = parcel.partition(":")
            post(channel, number, customer, int(grams) if grams else None)
            print(f"posted parcel {number} of {customer}")


if __name__ == "__main__":
    main()
