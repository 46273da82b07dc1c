"""AMQP clients on three brokers that are killed, paused and cut off; a judge of what they saw."""
