"""Names of the record headers that store a message's AMQP metadata."""

HEADER = "amqp.header"
"""The content header as received (see `properties`)."""
EXCHANGE = "amqp.exchange"
ROUTING_KEY = "amqp.routing.key"
"""The routing key, if it is not the record's key."""
