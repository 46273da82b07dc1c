"""The embedded metadata store: SQLite in one file, as a `ports.store.Store`.

`sqlite_tree` implements the rules (paths, versions, ephemeral and sequential nodes) on an open
database and blocks; `embedded_store` adds a thread, sessions, watches and the interface.
"""
