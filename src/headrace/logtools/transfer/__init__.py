"""Copy partitions between log directories of stopped brokers: `headrace log import|export`.

The source is only read. A partition is copied under a name that both brokers delete at their start
(`….<hex>-delete`), and renamed once it is complete. So an interrupted transfer leaves nothing that
a broker would serve. Blocking; uses the given Disk, and the caller's function to copy a file.

* `copy_partitions` partitions and checkpoints; `rewrite_batches` what another cluster would misread
"""

from headrace.logtools.transfer.copy_partitions import (
    Transfer,
    TransferError,
    check_room,
    empty_partitions,
)

__all__ = ["Transfer", "TransferError", "check_room", "empty_partitions"]
