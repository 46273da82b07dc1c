"""Follow rows through later versions of a Delta table, of which some may have compacted files.

A compaction removes files and adds others with the same rows; its actions have `dataChange=false`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from headrace.model.errors import HeadraceError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

_NAME = "{:020}.json"


class RowsChangedError(HeadraceError):
    """Later versions have other rows in place of the followed ones, or mixed them with others."""


def follow(location: Path, files: Collection[str], since: int, until: int) -> frozenset[str]:
    """Return the files that have, at version `until`, the rows of these files at version `since`.

    `files`: paths on disk, relative to the table's location. RowsChangedError if no set of files
    has exactly these rows, or if the log's entries have expired.
    """
    followed = set(files)
    for version in range(since + 1, until + 1):
        actions = list(_actions(location, version))
        hit = [
            action for kind, action in actions if kind == "remove" and action["path"] in followed
        ]
        if any(action.get("dataChange", True) for action in hit):
            raise RowsChangedError(
                f"version {version} replaced or deleted rows of {hit[0]['path']}"
            )
        for partition in {_partition_of(action) for action in hit}:
            removed, added = (
                {
                    action["path"]
                    for found, action in actions
                    if found == kind and _partition_of(action) == partition
                }
                for kind in ("remove", "add")
            )
            if not removed <= followed:
                raise RowsChangedError(
                    f"version {version} merged rows with those of later batches in one file"
                )
            followed = (followed - removed) | added
    return frozenset(followed)


def version_of_transaction(
    location: Path, application: str, number: int, since: int, until: int
) -> int | None:
    """Return the version after `since` that stored this application transaction; None if none
    did."""
    for version in range(since + 1, until + 1):
        for kind, action in _actions(location, version):
            if kind == "txn" and (action["appId"], action["version"]) == (application, number):
                return version
    return None


def _actions(location: Path, version: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the kind and the content of a version's actions; paths are those on disk."""
    entry = location / "_delta_log" / _NAME.format(version)
    try:
        lines = entry.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise RowsChangedError(f"the table's log entry of version {version} has expired") from None
    for line in lines:
        for kind, action in json.loads(line).items():
            if "path" in action:
                action["path"] = unquote(action["path"])
            yield kind, action


def _partition_of(action: dict[str, Any]) -> str:
    # A remove action may lack its partition. Then all actions of the version count as one.
    return json.dumps(action.get("partitionValues"), sort_keys=True)
