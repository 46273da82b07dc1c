"""Views of the objects of virtual hosts, for lists that are made in slices (`operations.views`).

- `names`: the keys of all objects of one kind.
- `queues`, `exchanges`, `bindings`, `policies`: their descriptions.
- `operations`: the operations that return the views.
"""
