"""The metadata store of one process: SQLite in one plain file, behind `ports.store.Store`.

`sqlite_tree` holds the rules (paths, versions, ephemeral and sequential nodes) over an open
database and blocks; `embedded_store` gives it a thread, sessions, watches and the interface.
"""
