"""Configuration: Kafka's names, defaults and types of settings, and the checks of values.

* `keys/` has a row per key, in a class per area: type, default, bounds, mode, description. The
  attributes of `BrokerConfig` are generated from the rows.
* `definitions` has all keys by name, `BROKER` and `TOPIC`, and finds the closest to a mistyped one.
* `broker.load(text, environ, flags)` returns a `BrokerConfig` from all sources, or raises an error
  with a line per wrong value; `cross_key_rules` has the rules between several keys.
* `log_config.LogConfig` has a topic's settings, built by `topic_settings` over the broker's;
  `entity_settings` has those of groups and client metrics subscriptions.
* `descriptions` is the logic of DescribeConfigs and AlterConfigs for all of these.
* `properties`, `listeners` and `value_types` have the file's syntax, listener lists and types.

Nothing here reads a file or the environment: callers pass text and mappings.
"""
