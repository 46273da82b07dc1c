"""What the broker tells about itself: numbers and lines.

* `metrics` — counters and histograms of plain integers, cheap enough for every request; one
  `Metrics` per broker. Who shows them (Prometheus) is `frontends.http`'s affair.
* `logs` — how a log line looks, and how the process sets that up.

Time is never read here: callers measure and hand in seconds.
"""
