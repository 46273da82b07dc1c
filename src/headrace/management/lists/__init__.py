"""Lists of the management API, on any rows, which are JSON objects.

- `listing`: a whole answer: filtered, sorted, one page or all rows.
- `names`: the filter of names.
- `sort`: the order of rows, in runs with pauses.
- `pages`: the page that a request asks for, and its numbers.
- `columns`: the fields that a request asks for.
"""
