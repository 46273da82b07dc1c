"""Undeclared keys as text."""

from collections.abc import Mapping

_NAMES_SHOWN = 5
"""Names that a line has; `--json` has more."""


def unknown_keys_text(counts: Mapping[str, int]) -> str:
    """Return the names of keys that no column has, the most frequent first, with their number."""
    most = sorted(counts.items(), key=lambda each: -each[1])
    shown = ", ".join(f"{name} ({count:,})" for name, count in most[:_NAMES_SHOWN])
    more = f" and {len(most) - _NAMES_SHOWN} more" if len(most) > _NAMES_SHOWN else ""
    return f"keys without a column: {shown}{more}"
