"""Verify the files of a log directory: `headrace log verify`; also the basis of repair.

Every byte is read and nothing is trusted: batches are decompressed; indexes, aborted transactions,
producer snapshots and leader epochs are derived from the log and compared. Nothing is written and
no lock is taken, so a broker may be running (`live`).

* `report` findings; `segment` a `.log` with its indexes; `partition` a directory of them
* `directory` a log directory: checkpoints, identity, all partitions; `single_file` one file
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
