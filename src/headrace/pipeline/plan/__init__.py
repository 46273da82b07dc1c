"""Prints of flows, and their comparison: whether a changed flow may keep its checkpoint."""
