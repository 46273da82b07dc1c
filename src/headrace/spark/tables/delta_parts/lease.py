"""Leases on partitions: `mergeEvery` does not compact them while they are compared or replaced.

    <table>/_headrace/leases/<name>.json      range of partitions, and the time of the end

A compaction that put replaced rows and later ones into one file would make a replacement of files
impossible. A lease ends by itself, so a replay that is given up does not stop compaction for good.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from headrace.spark.durable import replace_file
from headrace.spark.tables.attempts import OWN_DIRECTORY
from headrace.spark.tables.delta_parts.partition_range import PartitionRange

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from headrace.spark.tables.partition import Key

LEASE_MS = 7 * 24 * 3600 * 1000
"""Time for which a lease holds, in milliseconds: that for which Delta keeps removed files."""


class LeasedPartitions:
    """The partitions of a table that are leased."""

    def __init__(self, location: Path, now_ms: int) -> None:
        """Read the leases that hold at this time."""
        self._ranges: list[PartitionRange | None] = []
        for file in _directory(location).glob("*.json"):
            try:
                lease: dict[str, Any] = json.loads(file.read_bytes())
            except FileNotFoundError:
                continue
            if now_ms < lease["until_ms"]:
                range_ = lease["range"]
                self._ranges.append(None if range_ is None else PartitionRange(**range_))

    def holds(self, partition_by: Sequence[str], key: Key) -> bool:
        """Return whether a partition is leased."""
        return any(range_ is None or range_.holds(partition_by, key) for range_ in self._ranges)


def take_lease(location: Path, name: str, range_: PartitionRange | None, until_ms: int) -> None:
    """Lease partitions until a time; None: the whole table. Replaces the lease of this name."""
    directory = _directory(location)
    for each in (directory.parent, directory):
        each.mkdir(exist_ok=True)
    said = None if range_ is None else vars(range_)
    content = json.dumps({"range": said, "until_ms": until_ms}).encode()
    replace_file(location, directory / f"{name}.json", content)


def end_lease(location: Path, name: str) -> None:
    """End a lease; nothing happens if it has ended."""
    (_directory(location) / f"{name}.json").unlink(missing_ok=True)


def _directory(location: Path) -> Path:
    return location / OWN_DIRECTORY / "leases"
