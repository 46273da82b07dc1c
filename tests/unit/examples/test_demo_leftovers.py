"""Of a table's folder nothing stays but what Spark itself would read."""

import json
from pathlib import Path
from urllib.parse import quote

import pytest

from examples.access_log.leftovers import LOG, remove_unlisted

PLACE = "date=2026-01-02/hour=3"


def entry(table: Path, name: str, *files: Path, action: str = "add", version: str = "v1") -> None:
    """Write an entry of the sink's log as Spark does."""
    log = table / LOG
    log.mkdir(parents=True, exist_ok=True)
    lines = [
        json.dumps({"path": f"file://{quote(str(file))}", "size": 1, "action": action})
        for file in files
    ]
    (log / name).write_text("\n".join([version, *lines]))


def parquet(table: Path, name: str) -> Path:
    """Write a file of the table, with its checksum beside it."""
    file = table / PLACE / f"{name}.snappy.parquet"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"PAR1")
    file.with_name(f".{file.name}.crc").write_bytes(b"crc")
    return file


def left(table: Path) -> set[str]:
    """Return the names of the table's files, checksums included."""
    return {file.name for file in (table / PLACE).iterdir()}


def names(*files: Path) -> set[str]:
    return {name for file in files for name in (file.name, f".{file.name}.crc")}


def test_only_files_that_the_log_lists_stay(tmp_path: Path) -> None:
    table = tmp_path / "with a space" / "requests"
    early, late, orphan = (parquet(table, name) for name in ("early", "late", "orphan"))
    entry(table, "9.compact", early)
    entry(table, "10", late)
    entry(table, ".11.a-uuid.tmp", orphan)
    assert remove_unlisted(table) == 1
    assert left(table) == names(early, late)
    assert remove_unlisted(table) == 0
    assert left(table) == names(early, late)


def test_a_file_that_the_log_says_is_deleted_goes(tmp_path: Path) -> None:
    kept, deleted = (parquet(tmp_path, name) for name in ("kept", "deleted"))
    entry(tmp_path, "0", kept, deleted)
    entry(tmp_path, "1", deleted, action="delete")
    assert remove_unlisted(tmp_path) == 1
    assert left(tmp_path) == names(kept)


def test_a_batch_without_files_takes_none_away(tmp_path: Path) -> None:
    kept = parquet(tmp_path, "kept")
    entry(tmp_path, "0", kept)
    entry(tmp_path, "1")
    assert remove_unlisted(tmp_path) == 0
    assert left(tmp_path) == names(kept)


def test_a_log_of_another_version_is_refused_and_nothing_removed(tmp_path: Path) -> None:
    file = parquet(tmp_path, "file")
    entry(tmp_path, "0", file, version="v2")
    with pytest.raises(ValueError, match="version v2"):
        remove_unlisted(tmp_path)
    assert left(tmp_path) == names(file)


def test_without_a_log_nothing_is_removed(tmp_path: Path) -> None:
    file = parquet(tmp_path, "file")
    with pytest.raises(FileNotFoundError):
        remove_unlisted(tmp_path)
    assert left(tmp_path) == names(file)
