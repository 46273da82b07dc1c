"""The command `headrace`.

* `main` — where it begins, and the one place where errors become a line and an exit code.
* `tree` — the tree of commands. `start` — the broker itself, without what a broker does not need.
* `serve`, `stop` — the broker's commands.
* `topic`, `group`, `produce`, `follow`, `consume`, `dump` — a file each, on `headrace.client`.
* `broker_options`, `output`, `failure` — what they share: where the cluster is, tables and JSON,
  errors as one line.

A command's module is imported when the command is used. Tables are rich on a terminal, plain
columns elsewhere, JSON with `--json`. Answers go to standard output, all else to standard error.
"""
