"""`headrace group` and `headrace share`: consumer groups and share groups.

group            the tree of commands; list, describe, delete offset_reset     `seek`, `reset` and
`delete-offsets` reset_targets    the options of `reset` that name the new offsets share
share groups
"""
