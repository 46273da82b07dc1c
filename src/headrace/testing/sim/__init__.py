"""Simulation: several brokers and clients in one process, on an event loop ordered by a seed.

* `loop`: SimLoop: time advances only when no callback is ready; the seed orders ready callbacks.
* `network`, `transport`: machines, connections with delays, cuts and full buffers.
* `disk`: the simulated disk, whose work is done by that loop instead of threads.
* `ensemble`: one metadata store, in which every broker has a session.
* `world`: the `World` of one broker. `cluster`: brokers made of such worlds, and their clients.
* `history`: events, one line each, and their digest: the same seed gives the same history.
* `replicated`, `faults`, `replica_watch`, `replica_trace`: the story of replicas, its faults, its
  invariants, and the steps of high watermarks and log ends as a table.
* `stories`: the scenarios. `python -m headrace.testing.sim SEED` plays all of them.
"""
