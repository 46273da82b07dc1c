"""The HTTP server: its protocol, and the paths of `metrics.listener`.

- `endpoint`: the listener and its connections, on `net`; all that a start needs.
- `session`: a connection, h11 on `net.stream`; imported with the first connection.
- `heads`: refusals of ambiguous requests. `bodies`: received when their handler reads them.
- `sending`, `streams`, `events`: replies as bytes; bodies made while the client reads them, gzip;
  streams of events. `bodies`, `streams`, `events` are imported with the first use.
- `router`: the table of path patterns; requests, replies and their types.
- `routes`: the served paths, each with its handler.
- `scrape`: a collection of all metrics, shared by clients that ask during it.
- `exposition`: a broker's `Metrics` in Prometheus' text format; the only user of prometheus_client,
  imported when the endpoint is opened.
- `gauges`, `coordinator_gauges`, `replication_gauges`: metrics read from the broker's state.
- `surveys`: metrics that need all partitions or groups, collected a slice at a time.
- `readiness`: the conditions under which another broker may be restarted.
"""
