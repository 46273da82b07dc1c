"""The management API: a table of requests on operations, without HTTP.

- `requests`: the table, requests and replies, refusals as the API answers them.
"""
