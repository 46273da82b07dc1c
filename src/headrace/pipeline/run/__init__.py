"""A run of a declared pipeline: its queries, lock, event log and end."""
