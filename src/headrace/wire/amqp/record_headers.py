"""Names of the headers by which a record keeps what AMQP said of a message."""

HEADER = "amqp.header"
"""The content header as it came (`properties`)."""
EXCHANGE = "amqp.exchange"
ROUTING_KEY = "amqp.routing.key"
"""Where the record's key is another."""
