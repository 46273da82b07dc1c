"""Typed topics: JSON values to Arrow columns."""
