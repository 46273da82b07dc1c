"""Configuration: Kafka's own names, their defaults, and what a value must be.

* `definitions` — every key Headrace uses, as tables: `BROKER`, `TOPIC`; what Kafka knows and we do
  not use; nearest names for typing errors. The keys themselves are in the `keys_…` files by area.
* `broker` — `load(text, environ, flags)` makes a `BrokerConfig` of all sources, or says in one
  line each what is wrong; `together` — what its keys mean together.
* `topic`, `topics` — `LogConfig`, a topic's settings over the broker's, and how it is made.
* `properties`, `listeners`, `kinds` — the file's syntax, listener lists, types and checks.

Nothing here reads a file or the environment: text and mappings are handed in.
"""
