"""Tables need the libraries of their formats and of their readers."""

from importlib.util import find_spec

if not all(map(find_spec, ("deltalake", "pyiceberg", "duckdb", "polars"))):
    collect_ignore_glob = ["*.py"]
