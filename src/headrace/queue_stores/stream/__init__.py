"""Stores of streams: records of a partition, read by each consumer from its own offset."""
