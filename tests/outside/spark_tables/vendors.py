"""The Spark with Delta's and Iceberg's jars, in a process of its own."""

import os
from pathlib import Path
from typing import Any

from bench.spark_peer import ROOT, TABLES
from tests.spark.long import QUICK_JAVA
from tests.support.net.line_process import LineProcess


class VendorError(Exception):
    """What Spark said."""


class Vendors(LineProcess):
    """Statements and streams of that Spark."""

    def __init__(self, warehouse: Path) -> None:
        """`warehouse`: of our Iceberg tables, which are in its catalog `headrace`."""
        python, jars = TABLES.python(), ",".join(map(str, TABLES.jars()))
        variables = {
            name: value for name, value in os.environ.items()
            if name != "SPARK_HOME" and not name.startswith("PYSPARK_")
        }  # fmt: skip
        variables |= QUICK_JAVA | {
            "PYTHONPATH": str(ROOT),
            "PYSPARK_PYTHON": str(python),
            "TZ": "UTC",
        }
        command = [str(python), "-m", "tests.outside.spark_tables.session", jars, str(warehouse)]
        super().__init__(command, ROOT, variables)

    def version(self) -> str:
        """Return Spark's release."""
        return str(self._answered("version"))

    def sql(self, statement: str) -> list[list[Any]]:
        """Return the rows of a statement, in values that `plain` makes."""
        found: list[list[Any]] = self._answered("sql", statement)
        return found

    def number(self, statement: str) -> int:
        """Return the one number of a statement."""
        return int(self.sql(statement)[0][0])

    def stream(self, kind: str, table: str, directory: Path) -> list[int]:
        """Return the offsets a stream has read of the table, when it is at the end, in all runs."""
        found: list[int] = self._answered("stream", kind, table, str(directory))
        return found

    def _answered(self, *asked: str) -> Any:
        answer = self.ask(asked)
        if "error" in answer:
            raise VendorError(answer["error"])
        return answer["found"]
