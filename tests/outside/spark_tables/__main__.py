"""Spark with Delta's and Iceberg's jars reads, and writes to, the tables of our sink.

    python -m tests.outside.spark_tables [WORDS OF A CASE'S NAME]

Jars come by Maven, their Spark by pip, at first use (see `bench/spark_peer.py`). Exits with 1 where
a case fails.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.spark_peer import TABLES
from tests.outside.spark_tables.delta_cases import DeltaCases
from tests.outside.spark_tables.iceberg_cases import IcebergCases
from tests.outside.spark_tables.parquet_cases import ParquetCases
from tests.outside.spark_tables.stream_cases import StreamCases
from tests.outside.spark_tables.vendors import Vendors
from tests.support.processes.process import BrokerProcess


def main() -> int:
    """Print a verdict for each case as it ends; return the command's exit code."""
    print(f"spark {TABLES.pyspark}: {', '.join(jar.name for jar in TABLES.jars())}")
    wanted = " ".join(sys.argv[1:])
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        with (
            Vendors(directory / "table") as vendors,
            BrokerProcess(directory / "broker") as broker,
        ):
            if (found := vendors.version()) != TABLES.pyspark:
                raise SystemExit(f"spark is {found}: remove {TABLES.home / 'target'}")
            streams = StreamCases(vendors, directory, broker.bootstrap)
            cases = {
                **ParquetCases(vendors, directory).by_name(),
                **DeltaCases(vendors, directory).by_name(),
                **IcebergCases(vendors, directory).by_name(),
                **streams.by_name(),
            }
            verdicts = [_holds(name, case) for name, case in cases.items() if wanted in name]
            streams.close()
    return 0 if verdicts and all(verdicts) else 1


def _holds(name: str, case: Callable[[], None]) -> bool:
    started = time.perf_counter()
    try:
        case()
    except Exception as error:  # noqa: BLE001 - the verdict is the report
        print(f"FAILED  {name}: {type(error).__name__}: {error}", flush=True)
        return False
    print(f"ok      {name} ({time.perf_counter() - started:.0f} s)", flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main())
