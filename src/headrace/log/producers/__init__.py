"""Idempotent producers of a partition: their state, and its `.snapshot` files."""
