"""What `reader` and `writer` have in common: the protocol's numbers of fixed size, and ids."""

import struct

Bytes = bytes | bytearray | memoryview

INT16 = struct.Struct(">h")
INT32 = struct.Struct(">i")
UINT32 = struct.Struct(">I")
INT64 = struct.Struct(">q")
FLOAT64 = struct.Struct(">d")
UUID_BYTES = 16
NO_UUID = bytes(UUID_BYTES)
"""The zero UUID: none."""
