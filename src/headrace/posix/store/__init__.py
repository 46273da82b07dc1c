"""The metadata store of a cluster of one: SQLite in one plain file, behind `ports.store.Store`.

`tree` holds the rules (paths, versions, ephemeral and sequential nodes) over an open database and
blocks; `store` gives it a thread, watches and the interface.
"""
