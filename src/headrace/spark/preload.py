"""Spark's daemon of the processes in which a sink's batch begins and ends, its imports done.

Spark forks one process when a batch begins and another to commit it, and each of them imports all
that it needs. Most of what a small batch took was that: 0.2 CPU-seconds of each process. Here it is
imported before the fork. Spark itself imports nothing before it, for threads do not live on in the
process that was forked: of these modules numpy and pyarrow start some, and both begin them anew.
"""

import gc
import os
import sys
from contextlib import suppress
from importlib import import_module

from headrace.wire.kafka import kio_codec
from headrace.wire.kafka.api import ApiKey

WORKERS = (
    "pyspark.sql.worker.write_into_data_source",
    "pyspark.sql.worker.python_streaming_sink_runner",
)
"""What Spark calls the two kinds of processes."""
_IMPORTED = ("pyarrow", "headrace.spark.source", "headrace.spark.sink")
_ASKED = {
    ApiKey.FIND_COORDINATOR: 6,
    ApiKey.INIT_PRODUCER_ID: 5,
    ApiKey.ADD_PARTITIONS_TO_TXN: 3,
    ApiKey.END_TXN: 4,
    ApiKey.DESCRIBE_TRANSACTIONS: 0,
    ApiKey.LIST_TRANSACTIONS: 0,
}
"""What a sink's driver asks through kio, in the versions that today's brokers have: a module each,
which would otherwise be imported when it is first met."""


def main() -> None:
    """Run Spark's daemon for the worker that the command line names."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for name in (*sys.argv[1:2], *_IMPORTED):
        # What is missing is said by the process that needs it.
        with suppress(ImportError):
            import_module(name)
    for key, version in _ASKED.items():
        kio_codec.entity_module(key, version)
    gc.collect()
    gc.freeze()  # else the first collection in a process would copy all of these pages
    from pyspark.daemon import manager

    manager()
