"""The mark of free space in effect for a log directory: as set, or by its file system's size."""

DEFAULT_BYTES = 50_000_000
DEFAULT_SHARE = 10
"""`log.dirs.free.bytes.min` where it is unset: so much, and of a small file system this part."""


def free_bytes_min(configured: int | None, total: int) -> int:
    """Return below how many free bytes producers are refused; `total`: of the file system."""
    if configured is not None:
        return configured
    return min(DEFAULT_BYTES, max(total, 0) // DEFAULT_SHARE)
