"""Stores of durable queues: records of a partition, and a file of settled positions."""
