"""SQL on topics by DuckDB."""
