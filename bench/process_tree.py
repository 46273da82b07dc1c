"""What a process and all that it started use, as the kernel has it."""

import os
from contextlib import suppress
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_USER_TIME, _CHILDREN_TIME_END = 11, 15
"""Fields of /proc/PID/stat after the name: user and system time, then those of ended children."""


def process_tree(process_id: int) -> list[int]:
    """The process and its descendants that run now."""
    found = [process_id]
    for one in found:
        for task in _tasks(one):
            with suppress(OSError):
                found += map(int, (task / "children").read_text().split())
    return found


def _tasks(process_id: int) -> list[Path]:
    with suppress(OSError):
        return list(Path(f"/proc/{process_id}/task").iterdir())
    return []


def cpu_seconds(process_ids: list[int]) -> float:
    """User and system time of the processes so far, with that of their ended children."""
    ticks = 0
    for process_id in process_ids:
        with suppress(OSError):
            fields = Path(f"/proc/{process_id}/stat").read_text().rsplit(")", 1)[1].split()
            ticks += sum(map(int, fields[_USER_TIME:_CHILDREN_TIME_END]))
    return ticks / TICKS_PER_SECOND


def memory_megabytes(process_ids: list[int]) -> float:
    """Resident memory of the processes now; what several share is counted once (Pss)."""
    kilobytes = 0
    for process_id in process_ids:
        with suppress(OSError):
            for line in Path(f"/proc/{process_id}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    kilobytes += int(line.split()[1])
    return kilobytes * 1024 / 1e6


def named(process_ids: list[int], name: str) -> list[int]:
    """Those of the processes whose program has this name."""
    return [one for one in process_ids if _name(one) == name]


def _name(process_id: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{process_id}/comm").read_text().strip()
    return ""


def resident_megabytes(process_ids: list[int]) -> float:
    """Resident memory of the processes now, each counted whole (RSS)."""
    pages = 0
    for process_id in process_ids:
        with suppress(OSError):
            pages += int(Path(f"/proc/{process_id}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def anonymous_megabytes(process_ids: list[int]) -> float:
    """Resident memory of the processes now that is not of files (RssAnon)."""
    kilobytes = 0
    for process_id in process_ids:
        with suppress(OSError):
            for line in Path(f"/proc/{process_id}/status").read_text().splitlines():
                if line.startswith("RssAnon:"):
                    kilobytes += int(line.split()[1])
    return kilobytes * 1024 / 1e6
