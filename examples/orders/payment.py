"""Charge each order and publish its payment, exactly once: `python -m examples.orders.payment`.

The payment and the offset of the order are one Kafka transaction. A program that is killed anywhere
has published a payment and read its order, or neither. Readers with
`isolation.level=read_committed` see no payment of an aborted transaction.
"""

import json
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta

from confluent_kafka import Consumer, KafkaException, Message, Producer

from examples.orders.event_loop import Events, arguments

PAYMENTS = "payments"
GROUP = "payments"
TRANSACTION_SECONDS_MAX = 30.0


def payment_of(order: bytes) -> bytes:
    """Return the payment of an order; cards are charged two seconds after it."""
    event = json.loads(order)
    paid_at = datetime.fromisoformat(event["at"]) + timedelta(seconds=2)
    return json.dumps({"id": event["id"], "paid_at": paid_at.astimezone(UTC).isoformat()}).encode()


class Charges:
    """Reads orders and writes payments, a transaction for each order."""

    def __init__(self, bootstrap: str, consumer: Consumer) -> None:
        self._consumer = consumer
        # The name fences an older instance that still runs.
        settings = {"bootstrap.servers": bootstrap, "transactional.id": "orders-payment"}
        self._producer = Producer(settings)
        self._producer.init_transactions(TRANSACTION_SECONDS_MAX)

    def charge(self, order: Message) -> None:
        """Publish the payment of an order and commit its offset. KafkaException."""
        value = order.value()
        assert value is not None
        self._producer.begin_transaction()
        try:
            self._producer.produce(PAYMENTS, payment_of(value), key=order.key())
            self._producer.send_offsets_to_transaction(
                self._consumer.position(self._consumer.assignment()),
                self._consumer.consumer_group_metadata(),
                TRANSACTION_SECONDS_MAX,
            )
            self._producer.commit_transaction(TRANSACTION_SECONDS_MAX)
        except KafkaException:
            self._producer.abort_transaction(TRANSACTION_SECONDS_MAX)
            raise
        print(f"order {json.loads(value)['id']} is paid", flush=True)


def main() -> None:
    """Charge orders until Ctrl-C, or until some have been charged."""
    given = arguments(__doc__).parse_args()
    with closing(Events(given.bootstrap, GROUP)) as events, suppress(KeyboardInterrupt):
        charges = Charges(given.bootstrap, events.consumer)
        for order in events.until(given.count):
            charges.charge(order)


if __name__ == "__main__":
    main()
