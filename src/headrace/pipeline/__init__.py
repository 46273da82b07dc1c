"""Declare pipelines for Spark.

* `topic`, `read`, `parser` and the checks `expect…`, `unique` and `fresh` are the names that a
  pipeline's files use next to Spark's own `pyspark.pipelines`; `headrace pipeline validate` checks
  the files.
* A record without a value is a *heartbeat*: its timestamp advances the watermark, so the last
  windows close. It has no parsed fields and does not count as a line.
* `Account` compares the number of records fed with the number written plus the number quarantined.

Needs pyspark and pyarrow (the extra `pipeline`) on top of the base install. `Unreadable`,
`Account` and the declarations work without them.
"""

import sys

from headrace.pipeline.account import Account, Unbalanced
from headrace.pipeline.declarations import (
    WITHOUT_CDC,
    DeclarationError,
    OtherRunner,
    expect,
    expect_or_drop,
    expect_or_fail,
    expect_or_quarantine,
    fresh,
    other_runner,
    parser,
    read,
    topic,
    unique,
)
from headrace.pipeline.unreadable import Unreadable

__all__ = [
    "Account",
    "DeclarationError",
    "Unbalanced",
    "Unreadable",
    "expect",
    "expect_or_drop",
    "expect_or_fail",
    "expect_or_quarantine",
    "fresh",
    "parser",
    "read",
    "topic",
    "unique",
]


def _of_spark_pipelines() -> OtherRunner | None:
    """Return Spark's own runner; None if it does not run."""
    if "pyspark.pipelines.graph_element_registry" not in sys.modules:
        return None
    from headrace.pipeline.connect_sources import connect_sources

    return connect_sources()


other_runner(_of_spark_pipelines)

_LATER = ("debezium", "create_auto_cdc_flow")


def __getattr__(name: str) -> object:
    """Raise AttributeError, which tells for helpers of CDC what a project does instead."""
    if name in _LATER:
        raise AttributeError(f"hp.{name} is not part of this release: {WITHOUT_CDC}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
