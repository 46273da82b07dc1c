"""DuckDB in memory with a bound, beyond which it spills to a temporary directory."""

import tempfile
from typing import Any, Self

import duckdb

from headrace.arrow.sql.sql_columns import text

MEMORY = "1GB"
"""Default memory limit of DuckDB."""


class BoundedDuckDb:
    """A DuckDB without files, Python variables or downloads; times are in UTC."""

    def __init__(self, memory: str = MEMORY) -> None:
        """Start DuckDB. duckdb.Error for an invalid `memory`, such as "1GB"."""
        self._spill = tempfile.TemporaryDirectory(prefix="headrace-query-")
        self.connection: Any = duckdb.connect(":memory:")
        try:
            # Disable replacement scans of Python variables and downloads of extensions.
            for setting, value in (
                ("python_enable_replacements", "false"),
                ("autoinstall_known_extensions", "false"),
                ("temp_directory", text(self._spill.name)),
                ("memory_limit", text(memory)),
                ("TimeZone", "'UTC'"),
            ):
                self.connection.execute(f"SET {setting} = {value}")
        except duckdb.Error:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close DuckDB and delete its temporary files."""
        self.connection.close()
        self._spill.cleanup()
