"""Defaults of the commands, in a module that imports nothing."""

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
"""The cluster's address if none is given."""
