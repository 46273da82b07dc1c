"""Replays need the libraries of Delta and DuckDB."""

from importlib.util import find_spec

if not all(map(find_spec, ("pyspark", "deltalake", "duckdb"))):
    collect_ignore_glob = ["*.py"]
