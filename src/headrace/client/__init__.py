"""Our one small Kafka client: for the command, followers, Spark's wire path and tests' probes.

* `client` — `Client`: bootstrap, connections, versions, metadata, routing, retries. `admin`,
  `offsets`, `groups`, `member`, `producer`, `consumer` are what can be asked through it.
* `transport` — what a client needs of the network; `blocking` does it with plain sockets, `events`
  on an asyncio loop. All logic is written once, as coroutines; on the blocking transport they
  never suspend, so `sync.run` drives them without an event loop.
* `sync` — for callers without a loop: `connect`, `run`, and `FetchConnection`, the fastest way to
  get record bytes into one's own process.
* `partitioner` — which partition a record goes to, as Java's client decides it.
"""
