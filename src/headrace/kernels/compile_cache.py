"""A directory for what is made once per machine: compiled kernels, the bundled Java's wrapper.

What lies there is run, so it is never one that somebody else could write to.
"""

import os
import stat
import sys
import tempfile
from pathlib import Path


def private_directory(name: str) -> Path:
    """Return a directory of the user's own, in the cache or beside it.

    A fresh one where none is safe.
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
    """Tell whether it is (or now was made) a directory that only this user can write to."""
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
    """Point numba at a directory that is ours alone, unless the user pointed it somewhere."""
    if "NUMBA_CACHE_DIR" not in os.environ:
        os.environ["NUMBA_CACHE_DIR"] = str(private_directory("numba"))


def tell_compiling(*, is_asked_for: bool = False) -> None:
    """Say, once a process, that kernels are about to be compiled, where none are kept.

    `is_asked_for`: nothing is said of how to have it done beforehand.
    """
    global _told
    if _told:
        return
    _told = True
    kept = Path(os.environ["NUMBA_CACHE_DIR"])
    if next(kept.glob("**/decode_*.nbi"), None) is None:
        advice = "" if is_asked_for else "; headrace arrow warm does it beforehand"
        print(
            "headrace.arrow: compiling for this machine, which takes some seconds and is kept in"
            f" {kept}{advice}",
            file=sys.stderr,
        )


_told = False
