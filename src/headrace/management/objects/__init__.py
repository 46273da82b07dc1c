"""Handlers of requests about the broker and its objects.

- `overview`: the broker and its version.
- `whoami`: the caller; logins; password hashes.
- `queues`, `exchanges`, `bindings`: declarations in virtual hosts; `listed_objects`: their lists.
"""
