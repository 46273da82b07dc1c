"""Constants shared by `reader` and `writer`: structs of fixed-size numbers, the zero UUID."""

import struct

Bytes = bytes | bytearray | memoryview

INT16 = struct.Struct(">h")
INT32 = struct.Struct(">i")
UINT32 = struct.Struct(">I")
INT64 = struct.Struct(">q")
FLOAT64 = struct.Struct(">d")
UUID_BYTES = 16
NO_UUID = bytes(UUID_BYTES)
"""The zero UUID, which means: no UUID."""
