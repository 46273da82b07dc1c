"""Stores of transient and exclusive queues: in memory, or spilled to disk."""
