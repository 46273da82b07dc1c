"""The parts of Spark's source, sink and tables without a Spark: they need its package alone."""

from importlib.util import find_spec

if find_spec("pyspark") is None:
    collect_ignore_glob = ["*.py", "tables/*"]
