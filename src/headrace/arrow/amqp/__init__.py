"""AMQP properties and headers of records as Arrow columns."""
