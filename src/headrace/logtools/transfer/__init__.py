"""Partitions from one stopped broker's log directory into another's. `headrace log import|export`.

The source is only read. A partition is copied under a name that both brokers remove at their start
(`….<hex>-delete`) and renamed when it is whole, so an interrupted transfer leaves nothing that is
served. Blocking, through the Disk it is handed; how a file is copied is the caller's.

* `move` partitions and checkpoints · `rewrite` what another cluster would misread
"""

from headrace.logtools.transfer.copy_partitions import (
    Transfer,
    TransferError,
    check_room,
    empty_partitions,
)

__all__ = ["Transfer", "TransferError", "check_room", "empty_partitions"]
