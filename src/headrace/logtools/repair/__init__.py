"""Mending a log directory that no broker runs on. `headrace log repair`.

By what `verify` finds. Files that can be worked out from the log (indexes, aborted transactions,
producer snapshots, epochs) are written anew. A segment with a bad batch is moved aside, whole, and
another one written with all its sound batches: nothing is deleted. With `truncate` the log ends
before the first bad batch instead, and what goes is said. What the next start mends by itself (a
torn tail, indexes after a kill) is left to it.

Only `repair_directory` is for others; blocking, through the Disk it is handed.

* `plan` what is to be said of each step · `salvage` segments · `beside` what is beside them
* `whole` a log directory
"""

from headrace.logtools.repair.plan import Mending
from headrace.logtools.repair.repair_directory import repair_directory

__all__ = ["Mending", "repair_directory"]
