"""Parse the values of a topic in Spark, keep the refused ones and balance the counts.

* `parse_values` runs a plain Python parser over the values of a topic. A refused value is kept with
  the reason and its place in the topic.
* A record without a value is a *heartbeat*: its timestamp advances the watermark, so the last
  windows close. It has no parsed fields and does not count as a line.
* `Account` compares the number of records fed with the number written plus the number quarantined.

Needs pyspark and pyarrow (the extra `pipeline`) on top of the base install. `Unreadable` and
`Account` work without them.
"""

from headrace.pipeline.account import Account, Unbalanced
from headrace.pipeline.unreadable import Unreadable

__all__ = ["Account", "Unbalanced", "Unreadable"]
