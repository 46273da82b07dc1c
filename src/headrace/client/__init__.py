"""Kafka client used by the command, by followers, by Spark's tasks and by tests.

* `client` — `Client`: bootstrap, connections, API versions, metadata, routing, retries. `admin`,
  `consumer` and `producer` hold the requests that it can send.
* `transport` — the network interface that a client needs, and its two implementations: plain
  sockets (`blocking`) and an asyncio loop (`events`). All logic is written once, as coroutines; on
  plain sockets they never suspend, so `sync.run` drives them without an event loop.
* `sync` — for callers without an event loop: `connect`, `run`, and `FetchConnection`, the fastest
  way to read record bytes into a process.
* `partitioner` — the partition of each record, computed as Java's client does.
"""
