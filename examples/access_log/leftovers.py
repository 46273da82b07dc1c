"""What a query that was stopped in the midst of a batch leaves in its table's folder.

Spark reads a folder that its file sink wrote by the sink's log alone: a file is in the table once
its batch is committed there. A batch that is stopped may have written files already; started again,
it writes them anew. pandas and pyarrow read every Parquet file of the folder, those too.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

LOG = "_spark_metadata"
VERSION = "v1"
_ENTRY_NAME = re.compile(r"\d+(\.compact)?")


def remove_unlisted(table: Path) -> int:
    """Remove the Parquet files below `table` that its sink's log does not list; return how many.

    Nothing may be writing to it. ValueError where the log is not of the version that is known.
    """
    listed = _listed_files(table)
    unlisted = [file for file in table.rglob("*.parquet") if file not in listed]
    for file in unlisted:
        file.unlink()
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    return len(unlisted)


def _listed_files(table: Path) -> set[Path]:
    """Return the files that Spark reads: added by any batch, and deleted by none."""
    files: dict[str, set[Path]] = {"add": set(), "delete": set()}
    for entry in (table / LOG).iterdir():
        if _ENTRY_NAME.fullmatch(entry.name):
            for status in _statuses(entry):
                files[status["action"]].add(Path(unquote(urlsplit(status["path"]).path)))
    return files["add"] - files["delete"]


def _statuses(entry: Path) -> Iterator[dict[str, str]]:
    """Yield the files that an entry of the log names: one batch's, or those of all up to it."""
    version, *lines = entry.read_text().splitlines()
    if version != VERSION:
        raise ValueError(f"{entry} is of version {version}, not {VERSION}")
    for line in lines:
        yield json.loads(line)
