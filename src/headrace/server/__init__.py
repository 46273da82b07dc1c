"""A broker assembled from its configuration and its world, and the real world.

* `assembly`: log directories, controller, coordinators and listeners, started in an order in which
  each finds what it needs, and stopped in an order that loses no acknowledged record. Tests and
  simulations make their brokers here too. `identity`: the ids of the broker and its cluster.
* `real_world`: this machine's clock, disk, network, threads and metadata store, as a `World`.
* `main`: the process: event loop, signals, exit code. `headrace serve` calls its `serve`.

Importing this package imports nothing else: start-up time is measured from exec.
"""
