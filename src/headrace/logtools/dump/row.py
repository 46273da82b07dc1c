"""Types of a dump's rows and of the reader."""

from collections.abc import Callable

Row = dict[str, object]
"""A row: values by name; numbers, strings, bytes, None, and lists or dicts of these."""

ReadAt = Callable[[int, int], bytes]
"""Reads (position, size); returns fewer bytes only at the end of the file."""
