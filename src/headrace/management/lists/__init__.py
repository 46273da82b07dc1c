"""Lists of the management API: pure functions on rows, which are JSON objects.

- `columns`: the fields that a request asks for.
"""
