"""Which decoder runs: the numba kernel, or its twin in plain Python.

HEADRACE_NUMBA=0 forces the twin. Compiled code is cached in a directory of our own, for an
installed package's may not be writable; one that others could write to is never used, because
loading a cache runs what is in it.
"""

import functools
import importlib.util
import os
import platform
from collections.abc import Callable

from headrace.kernels.compile_cache import prepare_cache, tell_compiling
from headrace.log.compaction.clean_segments import keys_max
from headrace.log.compaction.job import Job
from headrace.log.compaction.records import (
    INDEX_ENTRY_BYTES,
    PLAIN_ENTRY_BYTES,
    PlainRecords,
    Records,
)

DecodeRecords = Callable[..., int]
DecodeBatches = Callable[..., int]
EncodeRecords = Callable[..., int]
DivideRows = Callable[..., tuple[int, int]]


@functools.cache
def records_decoder() -> DecodeRecords:
    """Return the `decode_records` to use in this process; chosen once."""
    return records_decoder_named("python" if numba_unwanted() else "numba")


@functools.cache
def batches_decoder() -> DecodeBatches | None:
    """Return `decode_batches`; None where there is no numba or the processor lacks what it uses."""
    if numba_unwanted() or not has_crc32_instruction():
        return None
    prepare_cache()
    tell_compiling()
    from headrace.kernels import decode_batches

    compiled: DecodeBatches = decode_batches.decode_batches
    return compiled


def records_decoder_named(name: str) -> DecodeRecords:
    """Return `decode_records` of "numba" or "python"."""
    if name == "python":
        from headrace.kernels import decode_python

        return decode_python.decode_records
    prepare_cache()
    tell_compiling()
    from headrace.kernels import decode_numba

    compiled: DecodeRecords = decode_numba.decode_records
    return compiled


@functools.cache
def records_encoder() -> tuple[EncodeRecords, DivideRows]:
    """Return the `encode_records` and `divide_rows` to use in this process; chosen once."""
    return records_encoder_named("python" if numba_unwanted() else "numba")


def records_encoder_named(name: str) -> tuple[EncodeRecords, DivideRows]:
    """Return `encode_records` and `divide_rows` of "numba" or "python"."""
    if name == "python":
        from headrace.kernels import encode_python

        return encode_python.encode_records, encode_python.divide_rows
    prepare_cache()
    from headrace.kernels import encode_numba

    return encode_numba.encode_records, encode_numba.divide_rows


def compaction_records(job: Job) -> Records:
    """Return the quickest there is for the records of a compaction.

    That is compiled code, else plain Python.
    """
    if numba_unwanted():
        return PlainRecords(keys_max(job, PLAIN_ENTRY_BYTES))
    from headrace.kernels.compact_records import KernelRecords

    # No more keys than offsets: a small log gets a small map.
    offsets = max(job.upper - job.first_dirty, 1)
    return KernelRecords(keys_max(job), min(job.map_bytes // INDEX_ENTRY_BYTES, 2 * offsets))


def numba_unwanted() -> bool:
    """Tell whether the twins in plain Python do the work.

    They do when asked for, or because there is no numba.
    """
    return os.environ.get("HEADRACE_NUMBA") == "0" or importlib.util.find_spec("numba") is None


def has_crc32_instruction() -> bool:
    """Tell whether this processor has SSE 4.2's crc32, as all x86-64 ones since 2008."""
    if platform.machine() not in {"x86_64", "AMD64"}:
        return False
    import llvmlite.binding as llvm

    return bool(llvm.get_host_cpu_features().get("sse4.2"))
