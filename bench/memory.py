"""Memory that has been touched, for what is measured next."""

import tempfile
from pathlib import Path

TOUCHED_BYTES = 6 << 30
_FILE = "headrace-bench-touch"


def touch_memory(size: int = TOUCHED_BYTES) -> None:
    """Write and delete a file of `size` bytes: its pages are what is written next.

    Of a virtual machine a page that was never touched costs 2 CPU-seconds a GB, which falls on
    whoever writes first; one that is free for some seconds may go back to the host, and is fresh
    again (free page reporting). So what writes gigabytes has them touched just before.
    """
    path = Path(tempfile.gettempdir()) / _FILE
    block = bytes(8 << 20)
    with path.open("wb") as file:
        for _ in range(size // len(block)):
            file.write(block)
    path.unlink()
