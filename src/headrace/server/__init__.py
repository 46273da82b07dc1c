"""One broker wired together, and the real world it runs in.

* `assembly`: configuration in, a running broker out: disk, log directories, controller,
  coordinators, listeners; and the way back, in an order that loses nothing.
* `main`: the process around it: event loop, signals, exit code. `headrace serve` calls `serve`.

Importing this package imports nothing heavy: start-up time is counted from exec.
"""
