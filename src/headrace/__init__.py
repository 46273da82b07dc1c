"""Headrace: one append-only log, three protocols, one pipeline."""

__version__ = "0.1.0"
