"""Metrics and log lines of a broker.

* `metrics` — counters and histograms of plain integers, cheap enough for every request; one
  `Metrics` per broker. `frontends.http` exports them (Prometheus).
* `logs` — the format of log lines, and logging's set-up.

No clock is read here: callers measure and pass seconds.
"""
