"""Requests to other brokers with queues: alarms, batches for Kafka topics."""
