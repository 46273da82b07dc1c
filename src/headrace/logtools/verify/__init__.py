"""Is what lies on the disk sound? `headrace log verify`, and what repair goes by.

Everything is read to the last byte and nothing is believed: batches are unpacked, indexes, aborted
transactions, producer snapshots and epochs are worked out again from the log and compared. Nothing
is written, and no lock is taken: a broker may run beside (`live`).

* `report` what is found · `segment` one `.log` with its indexes · `partition` a directory of them
* `directory` a log directory: checkpoints, identity, all partitions · `one` a single file
"""

from headrace.logtools.verify.directory import verify_directory, verify_path
from headrace.logtools.verify.partition import PartitionFacts, Surroundings, verify_partition
from headrace.logtools.verify.report import Finding, Kind, Report
from headrace.logtools.verify.single_file import verify_file

__all__ = [
    "Finding",
    "Kind",
    "PartitionFacts",
    "Report",
    "Surroundings",
    "verify_directory",
    "verify_file",
    "verify_partition",
    "verify_path",
]
