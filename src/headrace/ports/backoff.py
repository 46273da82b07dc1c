"""How long to wait before the next attempt: twice as long after each failure in a row."""

_DOUBLINGS_MAX = 20
"""Beyond it the wait of any caller is at its maximum; the power stays a small number."""


def backoff_seconds(failures: int, seconds_min: float, seconds_max: float) -> float:
    """Return the seconds to wait after so many failures in a row, at least one."""
    return min(seconds_min * 2.0 ** min(failures - 1, _DOUBLINGS_MAX), seconds_max)
