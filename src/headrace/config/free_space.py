"""The minimum of free bytes of a log directory: `log.dirs.free.bytes.min`, or its default."""

DEFAULT_BYTES = 50_000_000
DEFAULT_SHARE = 10
"""With `log.dirs.free.bytes.min` unset: 50 MB, or a tenth of a smaller file system."""


def free_bytes_min(configured: int | None, total: int) -> int:
    """Return the number of free bytes below which producers are refused.

    `configured`: `log.dirs.free.bytes.min`, None if unset. `total`: the file system's size in
    bytes.
    """
    if configured is not None:
        return configured
    return min(DEFAULT_BYTES, max(total, 0) // DEFAULT_SHARE)
