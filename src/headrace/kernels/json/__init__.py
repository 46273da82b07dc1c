"""The kernel that decodes typed JSON, in parts; its twin is `headrace.typed.plain`.

program                          a schema compiled to an array that the kernel interprets
rows_kernel                      the entry: records in, columns out
marks_kernel                     keys, equal keys, nulls of missing fields
text_kernel, skip_kernel         strings; values of undeclared keys
numbers_kernel, doubles_kernel   integers and decimals; doubles bit-equal to Python's
times_kernel                     ISO times, epoch times, dates
memory_kernel                    loads and stores, checked with NUMBA_BOUNDSCHECK=1
"""
