"""A file that a process holds locked (flock) while it runs, with a content that names the process.

The kernel releases the lock when the process ends, however it ends. A file without a lock is left
over from a process that has ended, so its content is only valid while the lock is held.
"""

import fcntl
import os
from pathlib import Path

_BYTES_MAX = 64 << 10


def held_content(path: Path) -> bytes | None:
    """Return the content of a file that a process holds locked; None if none does. OSError.

    The reader locks the file for an instant, too, so a process that takes the lock tries again.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.pread(descriptor, _BYTES_MAX, 0)
    finally:
        os.close(descriptor)
    return None
