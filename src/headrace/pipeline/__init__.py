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

from headrace.pipeline.account import Account, Unbalanced
from headrace.pipeline.declarations import (
    DeclarationError,
    expect,
    expect_or_drop,
    expect_or_fail,
    expect_or_quarantine,
    fresh,
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
