"""Per-record work compiled by numba, and its twins in plain Python.

choose                            which of the two runs in this process
decode_numba, decode_python       twins: decode the records of a batch to columns
decode_batches                    numba only: many plain batches in one call
same_shape, lz4_kernel,           parts of the decoders: runs of records of one shape,
crc32c_kernel, memory             LZ4 blocks, checksums, loads and stores
layout                            state slots and outcomes shared by the decoders
encode_numba, encode_python       twins: encode columns to records; encode_layout: their state
compact_records, compact_numba    the records of a compaction; its twin in plain Python is
                                  `log.compaction.records`, used by the log without numba
json                              typed JSON to Arrow's buffers; its twin is `headrace.typed.plain`
compile_cache                     a private directory for compiled code
"""
