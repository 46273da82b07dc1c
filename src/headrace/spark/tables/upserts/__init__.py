"""Upserts by key into Delta: the newest change of each key, and the keys that were deleted."""
