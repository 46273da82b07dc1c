"""Checks on the rows of a write: conditions that Spark evaluates, division and counts in tasks."""
