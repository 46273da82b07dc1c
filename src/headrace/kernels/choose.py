"""Choose between the numba kernels and their twins in plain Python.

HEADRACE_NUMBA=0 forces the twins. Compiled code is cached in a directory of our own, as an
installed package's may be read-only. A directory that other users can write to is never used,
because loading a cache runs its code.
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
DecodeRows = Callable[..., int]


@functools.cache
def records_decoder() -> DecodeRecords:
    """Return the `decode_records` for this process; chosen once."""
    return records_decoder_named("python" if numba_unwanted() else "numba")


@functools.cache
def batches_decoder() -> DecodeBatches | None:
    """Return `decode_batches`; None without numba or the CPU instructions that it uses."""
    if numba_unwanted() or not has_crc32_instruction():
        return None
    prepare_cache()
    tell_compiling()
    from headrace.kernels import decode_batches

    compiled: DecodeBatches = decode_batches.decode_batches
    return compiled


def records_decoder_named(name: str) -> DecodeRecords:
    """Return the `decode_records` called "numba" or "python"."""
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
    """Return the `encode_records` and `divide_rows` for this process; chosen once."""
    return records_encoder_named("python" if numba_unwanted() else "numba")


def records_encoder_named(name: str) -> tuple[EncodeRecords, DivideRows]:
    """Return `encode_records` and `divide_rows` called "numba" or "python"."""
    if name == "python":
        from headrace.kernels import encode_python

        return encode_python.encode_records, encode_python.divide_rows
    prepare_cache()
    from headrace.kernels import encode_numba

    return encode_numba.encode_records, encode_numba.divide_rows


def typed_decoder() -> DecodeRows:
    """Return the kernel that decodes JSON; needs numba. `headrace.typed.plain` is its twin."""
    prepare_cache()
    tell_compiling("rows_kernel")
    from headrace.kernels.json import rows_kernel

    compiled: DecodeRows = rows_kernel.decode_rows
    return compiled


def compaction_records(job: Job) -> Records:
    """Return the fastest available implementation for the records of a compaction.

    Compiled code if numba is available, else plain Python.
    """
    if numba_unwanted():
        return PlainRecords(keys_max(job, PLAIN_ENTRY_BYTES))
    from headrace.kernels.compact_records import KernelRecords

    # A map never needs more keys than there are offsets, so a small log gets a small map.
    offsets = max(job.upper - job.first_dirty, 1)
    return KernelRecords(keys_max(job), min(job.map_bytes // INDEX_ENTRY_BYTES, 2 * offsets))


def numba_unwanted() -> bool:
    """Return whether the twins in plain Python are used: by request, or because numba is
    missing."""
    return os.environ.get("HEADRACE_NUMBA") == "0" or importlib.util.find_spec("numba") is None


def has_crc32_instruction() -> bool:
    """Return whether the CPU has SSE 4.2's crc32 instruction, as all x86-64 ones since 2008
    have."""
    if platform.machine() not in {"x86_64", "AMD64"}:
        return False
    import llvmlite.binding as llvm

    return bool(llvm.get_host_cpu_features().get("sse4.2"))
