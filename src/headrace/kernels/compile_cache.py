"""A private directory for generated files: compiled kernels, the bundled Java's wrapper.

Its files are executed, so no other user may be able to write to it.
"""

import os
import stat
import sys
import tempfile
from pathlib import Path

KERNELS = ("decode_", "rows_kernel")
"""Kernels that are compiled at different times: of record batches, and of typed JSON."""


def private_directory(name: str) -> Path:
    """Return a private directory in the user's cache or in the temporary directory.

    If neither is safe, a new temporary one.
    """
    for directory in _candidates(name):
        if is_ours(directory):
            return directory
    return Path(tempfile.mkdtemp(prefix=f"headrace-{name}-"))


def _candidates(name: str) -> list[Path]:
    base = os.environ.get("XDG_CACHE_HOME")
    home = Path(base) if base else Path(os.path.expanduser("~/.cache"))
    return [
        home / "headrace" / name,
        Path(tempfile.gettempdir()) / f"headrace-{name}-{os.getuid()}",
    ]


def is_ours(directory: Path) -> bool:
    """Return whether the directory exists, or could be created, and only this user can write to
    it."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = os.lstat(directory)
    except OSError:
        return False
    return (
        stat.S_ISDIR(status.st_mode)
        and status.st_uid == os.getuid()
        and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        and os.access(directory, os.W_OK)
    )


def prepare_cache() -> None:
    """Set NUMBA_CACHE_DIR to a private directory, unless it is set."""
    if "NUMBA_CACHE_DIR" not in os.environ:
        os.environ["NUMBA_CACHE_DIR"] = str(private_directory("numba"))


def tell_compiling(kernels: str = "decode_", *, is_asked_for: bool = False) -> None:
    """Print once per process that kernels are about to be compiled, if none are cached.

    `kernels`: how the names of their modules begin, one of KERNELS.
    `is_asked_for`: the user asked for it, so no advice to compile beforehand is printed.
    """
    if kernels in _told:
        return
    _told.update(KERNELS if is_asked_for else (kernels,))
    kept = Path(os.environ["NUMBA_CACHE_DIR"])
    if next(kept.glob(f"**/{kernels}*.nbi"), None) is None:
        advice = "" if is_asked_for else "; headrace arrow warm does it beforehand"
        print(
            "headrace.arrow: compiling for this machine, which takes some seconds and is kept in"
            f" {kept}{advice}",
            file=sys.stderr,
        )


_told: set[str] = set()
