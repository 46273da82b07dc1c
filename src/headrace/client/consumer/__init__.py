"""Consumers: positions, fetched batches, group members and share group members."""
