"""`headrace group` and `headrace share`: consumer groups and share groups.

group            the verbs, and those that list, describe and delete
moves            `seek`, `reset` and `delete-offsets`
reset_targets    where `reset` moves offsets to
share            share groups
"""
