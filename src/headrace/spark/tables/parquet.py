"""Parquet directories: exactly the committed files are visible under the table's path.

    <path>/_headrace/log/00000000000000000012.json   the last commit: markers, files to move
    <path>/_headrace/staging/…                       files of running tasks, or waiting for a merge
    <path>/timestamp_day=2026-11-23/part-….parquet   the table, for any reader of Parquet

A commit is its log entry, written atomically under a lock; then its files are moved to where
readers look. The next commit first completes one that was interrupted. Entries are small and hold
the markers of all pipelines, so the last entry suffices.

Visible files are never merged: a reader that has listed them would miss rows or read them twice. So
a stream with `mergeEvery` keeps small files in staging, committed but invisible, and moves only the
merged ones.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.spark.durable import flush_directories, replace_file
from headrace.spark.tables.attempts import OWN_DIRECTORY, Attempt, forget, locked
from headrace.spark.tables.columns import nullable, nullable_inside
from headrace.spark.tables.errors import Conflict, TableError, gone
from headrace.spark.tables.files import Layout, WrittenFile
from headrace.spark.tables.marker import UNKNOWN_DIGEST, Marker
from headrace.spark.tables.merge import groups_to_merge, rewrite
from headrace.spark.tables.new_columns import check_names, check_written, retyped
from headrace.spark.tables.options import TableOptions
from headrace.spark.tables.table import Table

ENTRIES_KEPT = 10
_STAGING = f"{OWN_DIRECTORY}/staging"
_STAGED = ".parquet.staged"
"""Suffix of staged files, not `.parquet`: readers of `**/*.parquet` look into all directories."""


class ParquetDirectory(Table):
    """A directory of Parquet files with Hive-style partition directories."""

    def __init__(self, options: TableOptions) -> None:
        super().__init__(options)
        self.location = options.path
        self._log = self.location / OWN_DIRECTORY / "log"
        self._last: dict[str, Any] = {}
        self._number = 0

    def exists(self) -> bool:
        """Return whether a log with an entry exists."""
        return self._log.is_dir() and any(self._log.glob("*.json"))

    def open(self, schema: pa.Schema) -> Layout:
        """Create the table's directory, or check columns and partitions; return the files' layout.

        Raises TableError if they differ.
        """
        fields = self.options.partition_by
        columns = _types_of(schema)
        said = {"columns": columns, "partitions": [field.name for field in fields]}
        if not self.exists():
            self._create(said)
        self.reload()
        last = self._last["table"]
        if last["partitions"] != said["partitions"]:
            raise TableError(
                f"{self.location} is partitioned by {', '.join(last['partitions']) or 'nothing'}, "
                f"not by {', '.join(said['partitions']) or 'nothing'}: partitionBy must name what "
                "the table has"
            )
        self._columns_with(columns)
        marker = self.last_marker()
        if marker is None or marker.columns == UNKNOWN_DIGEST:
            check_written(str(self.location), list(columns), self.columns(), UNKNOWN_DIGEST)
        partitions = {field.name for field in fields}
        return Layout(
            location=self.location,
            schema=nullable([column for column in schema if column.name not in partitions]),
            partition_by=fields,
            sort_by=self.options.sort_by,
            compression=self.options.compression,
            file_bytes=self.options.file_bytes,
            directory=_STAGING,
            suffix=_STAGED,
        )

    def reload(self) -> None:
        """Read the log's last entry."""
        entries = sorted(self._log.glob("*.json"))
        if not entries:
            raise gone(self.location)
        self._number = int(entries[-1].stem)
        self._last = json.loads(entries[-1].read_bytes())

    @property
    def _gathers(self) -> bool:
        """Whether small files wait in staging for a merge: only in streams, as a batch job ends."""
        return self.options.merge_every > 0 and self.options.checkpoint is not None

    @property
    def _waiting(self) -> list[str]:
        return list(self._last.get("waiting", ()))

    def complete(self) -> None:
        """Complete the last commit: move its staged files, and all waiting ones if none may
        wait."""
        with locked(self._log):
            self.reload()
            self._publish()
            if self._waiting and not self._gathers:
                self._commit(moved=self._waiting, waiting=[])

    def last_marker(self) -> Marker | None:
        """Return the pipeline's marker from the last entry; None if it has none."""
        text = self._last["markers"].get(self.options.pipeline)
        return None if text is None else Marker.of_json(self.options.pipeline, text)

    def columns(self) -> Collection[str]:
        """Return the columns of the last entry."""
        return list(self._last["table"]["columns"])

    def _columns_with(self, rows: Mapping[str, str]) -> dict[str, str]:
        """Return the last entry's columns and types with those of rows; TableError if one does not
        match."""
        there = _normalised(self._last["table"]["columns"])
        check_names(str(self.location), rows, there)
        for name, kind in rows.items():
            if there.get(name, kind) != kind:
                raise retyped(str(self.location), name, kind, there[name])
        return {**there, **rows}

    def owners(self) -> Collection[str]:
        """Return the name of the pipeline that created the table, as a set; empty without one."""
        return {self._last["owner"]} if self._last["owner"] else set()

    def append(
        self, files: Sequence[WrittenFile], marker: Marker | None, *, overwrite: bool
    ) -> None:
        """Commit files and marker by a log entry, then move the files."""
        with locked(self._log):
            self._reload_unchanged(self._number)
            table = self._last["table"]
            if files:
                rows = _types_of(pq.read_schema(self.location / files[0].path))
                table = {**table, "columns": self._columns_with(rows)}
            markers = dict(self._last["markers"])
            if marker is not None:
                markers[marker.pipeline] = marker.to_json()
            if overwrite:
                gone = [*sorted(self._visible()), *self._waiting]
                moved = [file.path for file in files]
                self._commit(table=table, markers=markers, moved=moved, gone=gone, waiting=[])
                return
            small = [file.path for file in files if self._gathers and self._is_small(file.size)]
            self._commit(
                table=table,
                markers=markers,
                moved=[file.path for file in files if file.path not in small],
                waiting=[*self._waiting, *small],
            )

    def held(self) -> Collection[str]:
        """Return the committed paths that may be in staging."""
        return {*self._waiting, *self._last["moved"]}

    def exclusive(self) -> AbstractContextManager[None]:
        """Hold the log's lock."""
        return locked(self._log)

    def merge(self, batch: int) -> int:
        """Merge the waiting files of each partition and make all visible; return the number merged.

        Files beyond `mergeBytesMax` become visible unmerged.
        """
        waiting, seen = self._waiting, self._number
        by_directory: dict[str, list[str]] = {}
        for path in waiting:
            by_directory.setdefault(str(Path(path).parent), []).append(path)
        groups = groups_to_merge(
            by_directory.values(),
            lambda path: (self.location / path).stat().st_size,
            self.options.merge_bytes,
        )
        attempt = Attempt(self.location, self.options.pipeline, batch)
        merged = [file.path for group in groups for file in self._rewritten(group, attempt)]
        replaced = {path for group in groups for path in group}
        if waiting:
            with locked(self._log):
                self._reload_unchanged(seen)
                for path in merged:
                    # Raises FileNotFoundError if another run of this batch has swept them.
                    (self.location / path).stat()
                alone = [path for path in waiting if path not in replaced]
                self._commit(moved=[*merged, *alone], gone=sorted(replaced), waiting=[])
        forget(self.location, [attempt.name])
        return len(replaced)

    def _rewritten(self, paths: Sequence[str], attempt: Attempt) -> Sequence[WrittenFile]:
        layout = Layout(
            location=self.location,
            schema=nullable(pa.unify_schemas(pq.read_schema(self.location / p) for p in paths)),
            sort_by=self.options.sort_by,
            compression=self.options.compression,
            file_bytes=self.options.file_bytes,
            directory=str(Path(paths[0]).parent),
            suffix=_STAGED,
        )
        return rewrite(layout, attempt, paths)

    def _is_small(self, size: int) -> bool:
        return size < self.options.file_bytes // 2

    def _reload_unchanged(self, seen: int) -> None:
        """Raise Conflict if the last entry is no longer number `seen`."""
        self.reload()
        if self._number != seen:
            raise Conflict(f"commit {self._number}")

    def _commit(self, *, moved: Sequence[str], gone: Sequence[str] = (), **more: object) -> None:
        """Write the next entry, then move and delete its files. The caller holds the lock."""
        self._write_entry({**self._last, "moved": list(moved), "gone": list(gone), **more})
        self._publish()

    def _publish(self) -> None:
        moved = []
        for path in self._last["moved"]:
            staged = self.location / path
            final = self.location / _final(path)
            if staged.exists():
                final.parent.mkdir(parents=True, exist_ok=True)
                staged.replace(final)
                moved.append(_final(path))
        for path in self._last["gone"]:
            (self.location / path).unlink(missing_ok=True)
        flush_directories(self.location, moved)

    def _visible(self) -> Iterator[str]:
        for path in self.location.rglob("*.parquet"):
            relative = path.relative_to(self.location)
            if relative.parts[0] != OWN_DIRECTORY:
                yield str(relative)

    def _create(self, said: dict[str, Any]) -> None:
        holds_files = self.location.is_dir() and any(
            not name.name.startswith((".", "_")) for name in self.location.iterdir()
        )
        # Checked after the files: another run's commit is in the log before its files are visible.
        if holds_files and not self.exists():
            raise TableError(
                f"{self.location} holds files that no commit of ours names: give an empty directory"
            )
        self._log.mkdir(parents=True, exist_ok=True)
        with locked(self._log):
            if self.exists():
                return
            entry = {"table": said, "owner": self.options.pipeline, "markers": {}}
            self._write_entry({**entry, "moved": [], "gone": []})

    def _write_entry(self, entry: dict[str, Any]) -> None:
        """Write the next log entry atomically and delete old ones. The caller holds the lock."""
        number = self._number + 1
        content = json.dumps(entry, sort_keys=True).encode()
        target = self._log / f"{number:020}.json"
        replace_file(self.location, target, content)
        self._number, self._last = number, entry
        for old in sorted(self._log.glob("*.json"))[:-ENTRIES_KEPT]:
            with suppress(OSError):
                old.unlink()


def _types_of(rows: pa.Schema) -> dict[str, str]:
    return _normalised({column.name: str(nullable_inside(column.type)) for column in rows})


def _normalised(columns: Mapping[str, str]) -> dict[str, str]:
    """Return types without nullability, which older releases stored for nested fields, and with
    Parquet's name for the elements of lists."""
    return {
        name: kind.replace(" not null", "").replace("list<item: ", "list<element: ")
        for name, kind in columns.items()
    }


def _final(staged: str) -> str:
    """Return the final path of a staged file."""
    return staged.removeprefix(f"{_STAGING}/").removesuffix(_STAGED) + ".parquet"
