"""The HTTP endpoint on request: `/metrics` for Prometheus and `/healthz`.

* `exposition` — a broker's `Metrics` as Prometheus reads them; the only user of prometheus_client,
  imported when the endpoint is opened.
* `surveys` — what all partitions must be gone through for, a slice of them at a time.
* `endpoint` — a bounded HTTP/1.1 server for GET and HEAD, nothing else.
"""
