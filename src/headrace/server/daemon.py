"""Running in the background: the command returns when the broker listens, or with its failure."""

import os
import sys
from pathlib import Path

_READY = b"1"
_parent = -1
"""Pipe to the waiting command, which ends when the broker listens; -1: it has ended."""


def detach(log_file: Path) -> None:
    """Continue as a background process in a session of its own, with output to `log_file`.

    The calling process prints what the broker printed until it listened, and exits with 0, or with
    the broker's exit code if it could not start.
    """
    global _parent
    log_file.parent.mkdir(parents=True, exist_ok=True)
    log = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    start = os.fstat(log).st_size
    read_end, write_end = os.pipe()
    child = os.fork()
    if child:
        os.close(write_end)
        ready = os.read(read_end, 1) == _READY
        _show(log_file, start)
        code = 0 if ready else os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        # Not sys.exit(): exit handlers are the broker process's, not this one's.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if code >= 0 else 128 - code)
    os.close(read_end)
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(nothing)
    os.close(log)
    _parent = write_end


def release_parent() -> None:
    """Let the command that started this broker end: the broker listens."""
    global _parent
    if _parent >= 0:
        os.write(_parent, _READY)
        os.close(_parent)
        _parent = -1


def _show(log_file: Path, start: int) -> None:
    """Print what was logged since byte `start`, so that the user sees a failed start's reason."""
    with log_file.open("rb") as file:
        file.seek(start)
        sys.stdout.write(file.read(64 << 10).decode("utf-8", "replace"))
