"""Repair a log directory of a stopped broker: `headrace log repair`.

Repairs the findings of `verify`. Files that can be derived from the log (indexes, aborted
transactions, producer snapshots, leader epochs) are rebuilt. A segment with a corrupt batch is
moved aside and a new one written with all valid batches: nothing is deleted. With `truncate` the
log ends before the first corrupt batch instead, and the loss is reported. Damage that the next
start repairs itself (a torn tail, indexes after a kill) is left to it.

Public: `repair_directory` and `Mending`. Blocking; uses the given Disk.

* `plan` the steps, printed and done; `salvage` segments; `segment_files` the files next to them
* `repair_directory` a whole log directory
"""

from headrace.logtools.repair.plan import Mending
from headrace.logtools.repair.repair_directory import repair_directory

__all__ = ["Mending", "repair_directory"]
