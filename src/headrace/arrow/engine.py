"""Which decoder runs: the numba kernel, or its twin in plain Python.

HEADRACE_NUMBA=0 forces the twin. Compiled code is cached in a directory of our own, for an
installed package's may not be writable; one that others could write to is never used, because
loading a cache runs what is in it.
"""

import functools
import importlib.util
import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

Decode = Callable[..., int]


@functools.cache
def decoder() -> Decode:
    """The `decode` to use in this process; chosen once."""
    return decoder_named("twin" if _numba_unwanted() else "kernel")


def decoder_named(name: str) -> Decode:
    """`decode` of "kernel" or "twin"."""
    if name == "twin":
        from headrace.arrow import twin

        return twin.decode
    _prepare_cache()
    from headrace.arrow import kernel

    compiled: Decode = kernel.decode
    return compiled


def _numba_unwanted() -> bool:
    return os.environ.get("HEADRACE_NUMBA") == "0" or importlib.util.find_spec("numba") is None


def _prepare_cache() -> None:
    """Point numba at a directory that is ours alone, unless the user pointed it somewhere."""
    if "NUMBA_CACHE_DIR" in os.environ:
        return
    for directory in _candidates():
        if _is_ours(directory):
            os.environ["NUMBA_CACHE_DIR"] = str(directory)
            return
    os.environ["NUMBA_CACHE_DIR"] = tempfile.mkdtemp(prefix="headrace-numba-")


def _candidates() -> list[Path]:
    user = f"headrace-numba-{os.getuid()}"
    base = os.environ.get("XDG_CACHE_HOME")
    home = Path(base) if base else Path(os.path.expanduser("~/.cache"))
    return [home / "headrace" / "numba", Path(tempfile.gettempdir()) / user]


def _is_ours(directory: Path) -> bool:
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
