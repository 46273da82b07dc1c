"""A shop: an order is placed, and four independent consumers read its event. README.md tells more.

place.py         takes stock and writes the invoice before it publishes the event
payment.py       charges each order and publishes its payment, exactly once, by transactions
red_envelope.py  gives a red envelope for large orders; a Kafka consumer with a database
sms.py           sends a message to the customer; a RabbitMQ client (pika) on the same topic
pipeline/        Spark: paid orders (a join), revenue (a window), alerts (a topic)
"""
