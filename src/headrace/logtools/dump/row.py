"""What a dump is made of."""

from collections.abc import Callable

Row = dict[str, object]
"""Names to plain values: numbers, texts, bytes, None, and lists or dicts of these."""

ReadAt = Callable[[int, int], bytes]
"""(position, size) to bytes, shorter only at the end of the file."""
