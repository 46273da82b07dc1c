"""Metadata: brokers, topics, partitions, leaders."""
