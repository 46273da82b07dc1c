"""Record-by-record work compiled by numba, and its twins in plain Python.

choose                            which of the two runs in this process
decode_numba, decode_python       twins: the records of one batch to columns
decode_batches                    numba only: many plain batches in one call
same_shape, lz4_kernel,           what the decoders are made of: runs of records of one shape,
crc32c_kernel, memory             blocks of lz4, checksums, loads and stores
layout                            the state and outcomes that the decoders share
compact_records, compact_numba    the records of a compaction; its twin in plain Python is
                                  `log.compaction.records`, which the log has without numba
compile_cache                     a directory for compiled code that nobody else writes to
"""
