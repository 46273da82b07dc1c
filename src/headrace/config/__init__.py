"""Configuration: Kafka's own names, their defaults, and what a value must be.

* `keys/` has a row for each key, in a class for each area: type, default, bounds, effect, meaning.
  The attributes of `BrokerConfig` are made of the rows.
* `definitions` has all of them by name, `BROKER` and `TOPIC`, and the nearest to a mistyped one.
* `broker.load(text, environ, flags)` makes a `BrokerConfig` of all sources, or says in a line each
  what is wrong; `cross_key_rules` is what keys mean together.
* `log_config.LogConfig` is a topic's settings, made by `topic_settings` over the broker's;
  `entity_settings` has those of groups and client metrics subscriptions.
* `descriptions` is what DescribeConfigs tells of all these, and what AlterConfigs may change.
* `properties`, `listeners` and `value_types` are the file's syntax, listener lists and the types.

Nothing here reads a file or the environment: text and mappings are handed in.
"""
