"""Several brokers and their clients in one process, on a loop whose order is a seed.

* `loop`: SimLoop: time that passes only when nothing is ready, and the next callback by the seed.
* `network`, `transport`: machines, connections with delays, cuts and full buffers.
* `disk`: the simulated disk with its work done by that loop, instead of by threads.
* `ensemble`: one metadata store that all brokers have a session of.
* `world`: what one broker stands on. `cluster`: brokers made of such worlds, and their clients.
* `history`: what happened, line by line, and its digest: the same seed, the same history.
* `replicated`, `faults`, `replica_watch`, `replica_trace`: the story of replicas, what goes
  wrong in it, what must hold, and the steps of high watermarks and log ends as a table.
* `stories`: what is played. `python -m headrace.testing.sim SEED` plays the first one.
"""
