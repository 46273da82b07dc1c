"""The command `headrace`.

* `main` — where it begins, and the one place where errors become a line and an exit code.
* `command_tree` — the tree of commands, which names their modules.
* `broker/` — `serve`, `dev`, `stop`: the broker itself, without what a broker does not need.
* `cluster/`, `topic/`, `group/` (with `share`), `trace/`, `log/` — a folder for each verb.
* `records/` — `produce`, `consume`, `query`, `perf`.
* `config`, `quota`, `acl`, `txn`, `disk`, `profile`, `arrow`, `completion` — verbs of one file.
* `shared/` — what they share: where the cluster is, tables and JSON, errors as one line.

A command's module is imported when the command is used. Tables are rich on a terminal, plain
columns elsewhere, JSON with `--json`. Answers go to standard output, all else to standard error.
"""
