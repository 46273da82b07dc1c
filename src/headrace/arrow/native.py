"""Functions of C libraries that are there already, for compiled code to call without Python."""

import ctypes
import functools
import platform

_PROOF = b"headrace reads many batches at a time " * 9


@functools.cache
def lz4_block_decompressor() -> int:
    """Address of liblz4's LZ4_decompress_safe_usingDict in the lz4 package; 0: not to be had.

    Proved on a block of our own before anybody relies on it.
    """
    try:
        import lz4.block

        function = ctypes.CDLL(lz4.block._block.__file__).LZ4_decompress_safe_usingDict
    except (ImportError, AttributeError, OSError):
        return 0
    function.argtypes = [
        ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_int
    ]  # fmt: skip
    function.restype = ctypes.c_int
    packed = lz4.block.compress(_PROOF, store_size=False)
    room = ctypes.create_string_buffer(len(_PROOF))
    size = function(packed, room, len(packed), len(_PROOF), None, 0)
    if size != len(_PROOF) or room.raw != _PROOF:
        return 0
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def has_crc32_instruction() -> bool:
    """Whether this processor has SSE 4.2's crc32, as all x86-64 ones since 2008."""
    if platform.machine() not in {"x86_64", "AMD64"}:
        return False
    import llvmlite.binding as llvm

    return bool(llvm.get_host_cpu_features().get("sse4.2"))
