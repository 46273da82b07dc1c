"""One broker put together, and the real world it runs in.

* `assembly`: configuration and world in, a running broker out: log directories, controller,
  coordinators, listeners; and the way back, in an order that loses nothing. The one way to make a
  broker, for tests and simulations too. `identity`: which broker it is, and of which cluster.
* `real_world`: this machine's clock, disk, network, threads and the embedded store, as a `World`.
* `main`: the process around it: event loop, signals, exit code. `headrace serve` calls `serve`.

Importing this package imports nothing heavy: start-up time is counted from exec.
"""
