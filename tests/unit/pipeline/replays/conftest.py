"""Replays need the libraries of Delta and DuckDB."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.spark.replays import Shop

if not all(map(find_spec, ("pyspark", "deltalake", "duckdb"))):
    collect_ignore_glob = ["*.py"]


@pytest.fixture
def shop(tmp_path: Path) -> "Shop":
    """Two batches of four rows: four rows a day."""
    from tests.support.spark.replays import Shop

    found = Shop(tmp_path / "storage")
    found.storage.mkdir()
    found.batch(0, [0, 1, 2, 3])
    found.batch(1, [4, 5, 6, 7])
    return found
