"""Dynamic settings of named entities of one type: groups, or client metrics subscriptions.

    broker.group_configs.value("billing", "consumer.session.timeout.ms", broker.config)

The broker holds one `EntityConfigs` per type and reads values from it; the controller fills it from
the metadata store, and checks what clients want to set.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress

from headrace.config.broker import BrokerConfig
from headrace.config.definitions import BROKER
from headrace.config.keys.entities import GROUP, GROUP_PREFIX, bounds_of_group_key, match_patterns
from headrace.config.value_types import Definition, Value
from headrace.model.errors import ConfigError

_ABOVE = (
    ("consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"),
    ("share.session.timeout.ms", "share.heartbeat.interval.ms"),
    ("streams.session.timeout.ms", "streams.heartbeat.interval.ms"),
)
"""Pairs of keys; the first value must be greater than the second."""


class EntityConfigs:
    """The settings of all entities of one type; an entity without settings has no entry."""

    def __init__(self, keys: Mapping[str, Definition], prefix: str = "") -> None:
        """Create an empty table of settings with these `keys`.

        `prefix` plus a key is the broker key that gives its default; "": no broker key does.
        """
        self.keys = keys
        self.prefix = prefix
        self.texts: dict[str, dict[str, str]] = {}
        """The values as set, by entity name and key. Changed by `put` only."""
        self.changed: list[Callable[[str], None]] = []
        """Called with the name of each entity whose settings changed."""

    def put(self, name: str, config: Mapping[str, str]) -> None:
        """Replace all settings of entity `name` by `config`; an empty one removes the entity."""
        if config:
            self.texts[name] = dict(config)
        else:
            self.texts.pop(name, None)
        for told in self.changed:
            told(name)

    def value(self, name: str, key: str, broker: BrokerConfig) -> Value:
        """Return the value of `key` for entity `name`: its own, else the default."""
        own = self.texts.get(name)
        if own is not None and key in own:
            with suppress(ValueError):
                return self.keys[key].parse(own[key])
        return self.default(key, broker)

    def default(self, key: str, broker: BrokerConfig) -> Value:
        """Return the value of `key` for an entity that does not set it: the broker's or Kafka's."""
        synonym = self.synonym(key)
        return self.keys[key].default if synonym is None else broker.effective(synonym)

    def synonym(self, key: str) -> str | None:
        """Return the broker key that gives the default of `key`, or None."""
        name = self.prefix + key
        return name if self.prefix and name in BROKER else None


def group_configs() -> EntityConfigs:
    """Return the settings of groups, empty."""
    return EntityConfigs(GROUP, GROUP_PREFIX)


def check_group_config(config: Mapping[str, str], broker: BrokerConfig) -> None:
    """Raise ConfigError for an unknown group key, or a value outside the broker's bounds."""
    values: dict[str, Value] = {}
    for name, text in config.items():
        definition = GROUP.get(name)
        if definition is None:
            raise ConfigError(f"Unknown group config name: {name}")
        try:
            values[name] = definition.parse(text)
        except ValueError as error:
            raise ConfigError(f"{name}={text}: {error}") from None
    for name, value in values.items():
        low, high = bounds_of_group_key(name)
        if low in BROKER and _number(value) < _number(broker.effective(low)):
            raise ConfigError(f"{name} must be greater than or equal to {low}")
        if high in BROKER and _number(value) > _number(broker.effective(high)):
            raise ConfigError(f"{name} must be less than or equal to {high}")
    whole = group_configs()
    for greater, less in _ABOVE:
        first = values.get(greater, whole.default(greater, broker))
        second = values.get(less, whole.default(less, broker))
        if (greater in values or less in values) and _number(first) <= _number(second):
            raise ConfigError(f"{greater} must be greater than {less}")


def check_match(value: Value) -> None:
    """Raise ConfigError if a subscription's `match` cannot be parsed."""
    try:
        match_patterns(value)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _number(value: Value) -> float:
    return value if isinstance(value, (int, float)) else 0
