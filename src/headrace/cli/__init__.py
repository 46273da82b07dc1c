"""The command `headrace`.

* `main` — the entry point; turns every error into one line and an exit code.
* `command_tree` — the tree of commands, which names their modules.
* `broker/` — `serve`, `dev`, `stop`: start and stop brokers; imports only what they need.
* `cluster/`, `topic/`, `group/` (with `share`), `trace/`, `log/` — a folder per command.
* `records/` — `produce`, `consume`, `query`, `perf`.
* `config`, `quota`, `acl`, `txn`, `disk`, `profile`, `arrow`, `completion` — commands of one file.
* `shared/` — shared parts: the cluster's address, tables and JSON, errors as one line.

A command's module is imported when the command is used. Tables are printed by rich on a terminal,
as plain columns elsewhere, as JSON with `--json`. Results go to standard output, everything else to
standard error.
"""
