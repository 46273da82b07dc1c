"""`headrace-reserve`: 1 MiB of disk space for the start of a broker whose disk is full.

A start writes checkpoints before retention can free space. The file is written while free space is
low, and removed by a start that finds less than its size free.
"""

import logging
from contextlib import closing, suppress

from headrace.log import file_names
from headrace.ports.disk import Disk

_logger = logging.getLogger(__name__)
RESERVE_BYTES = 1 << 20


def make(disk: Disk, path: str, least: int) -> None:
    """Write the reserve file if it is missing and leaves `least` bytes free. Blocking.

    If it cannot be written, a warning is logged and the rest of it removed.
    """
    where = f"{path}/{file_names.RESERVE}"
    if disk.exists(where):
        return
    try:
        if disk.free_bytes(path) < least + RESERVE_BYTES:
            return
        with closing(disk.open(where, create=True)) as file:
            # Written zeros, as a sparse file would reserve nothing.
            file.write_at(0, (bytes(RESERVE_BYTES),))
            file.sync()
    except OSError as error:
        _logger.warning("%s: not written: %s", where, error.strerror or error)
        with suppress(OSError):
            disk.remove(where)


def release(disk: Disk, path: str) -> None:
    """Remove the reserve file if less than its size is free. Blocking. Raises OSError."""
    where = f"{path}/{file_names.RESERVE}"
    if not disk.exists(where):
        return
    free = disk.free_bytes(path)
    if free < RESERVE_BYTES:
        _logger.warning(
            "%s: only %d bytes are free: removing %s to have space for the start; retention runs"
            " once the logs are loaded. Free more space, or shorten retention", path, free,
            file_names.RESERVE,
        )  # fmt: skip
        disk.remove(where)
