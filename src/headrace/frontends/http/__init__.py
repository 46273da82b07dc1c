"""The HTTP server of `metrics.listener`: metrics, health, readiness, and operations to read.

* `endpoint`: the listener and its connections, on `net`; what a start needs.
* `session`: one connection, h11 on `net.stream`; imported with the first connection.
* `router`: the table of paths; requests, replies and their types.
* `routes`: the paths that are served, each with its handler.
* `scrape`: one collection of all metrics, shared by the clients that ask during it.
* `exposition`: a broker's `Metrics` in Prometheus' text format; the only user of
  prometheus_client, imported when the endpoint is opened.
* `surveys`: metrics that need a look at all partitions, a slice of them at a time.
"""
