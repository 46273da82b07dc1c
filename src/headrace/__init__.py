"""Headrace: one append-only log, three protocols, one pipeline."""

__version__ = "0.2.0.dev0"
