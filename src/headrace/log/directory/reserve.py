"""`headrace-reserve`: space for the start of a broker whose disk is full.

A start writes checkpoints before retention can free anything. The file is written while free space
is short but not gone, and removed by a start that finds less free than it takes.
"""

import logging
from contextlib import closing, suppress

from headrace.log import file_names
from headrace.ports.disk import Disk

_logger = logging.getLogger(__name__)
RESERVE_BYTES = 1 << 20


def make(disk: Disk, path: str) -> None:
    """Write the file if it is missing; without space it is removed again. Blocking."""
    where = f"{path}/{file_names.RESERVE}"
    if disk.exists(where):
        return
    try:
        with closing(disk.open(where, create=True)) as file:
            # Zeros that are written, not a hole: a file of holes holds no room.
            file.write_at(0, (bytes(RESERVE_BYTES),))
            file.sync()
    except OSError as error:
        _logger.warning("%s: not written: %s", where, error.strerror or error)
        with suppress(OSError):
            disk.remove(where)


def release(disk: Disk, path: str) -> None:
    """Remove the file at a start with less free space than its size. Blocking. OSError."""
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
