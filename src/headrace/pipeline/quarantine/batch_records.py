"""Sums of a batch's event that add up: records read = rows' records + refused records.

Spark counts the records whose values were accepted. The quarantine counts refused ones: by their
values, which Spark has not counted, and by checks of their rows, which it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def refused_by_values(event: Mapping[str, Any]) -> int:
    """Return how many records of a batch were refused before they were rows."""
    refused: int = sum(event.get("refused", {}).values())
    by_checks: int = event.get("checks", {}).get("quarantined", 0)
    return max(0, refused - by_checks)


def records_read(event: Mapping[str, Any]) -> int:
    """Return how many records a batch has read, with those that it refused."""
    accepted: int = event["records"]
    return accepted + refused_by_values(event)
