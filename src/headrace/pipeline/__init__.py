"""Pipelines: what every pipeline on Spark needs, whatever its lines look like.

* `parse_values` runs a plain Python parser over the values of a topic and keeps what it refuses,
  with the reason and the place, so that nothing is dropped in silence.
* A record without a value is a *heartbeat*: it says that event time has come as far as its own
  timestamp. It moves the watermark, so the last windows close, and is counted as no line.
* `Account` is the closing balance: what was fed must be what was written plus what was quarantined.

Only pyspark and pyarrow are needed on top of the base install (the extra `pipeline`), and only
where a DataFrame is touched: `Unreadable` and `Account` need neither.
"""

from headrace.pipeline.account import Account, Unbalanced
from headrace.pipeline.unreadable import Unreadable

__all__ = ["Account", "Unbalanced", "Unreadable"]
