"""Which decoder runs: the numba kernel, or its twin in plain Python.

HEADRACE_NUMBA=0 forces the twin. Compiled code is cached in a directory of our own, for an
installed package's may not be writable; one that others could write to is never used, because
loading a cache runs what is in it.
"""

import functools
import importlib.util
import os
from collections.abc import Callable

from headrace.arrow.cache import private_directory

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
    if "NUMBA_CACHE_DIR" not in os.environ:
        os.environ["NUMBA_CACHE_DIR"] = str(private_directory("numba"))
