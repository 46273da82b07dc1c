"""AMQP channels: methods, consumers, unacknowledged deliveries, confirms, transactions."""
