"""Settings of named things of one kind, altered at run time: groups, client metrics subscriptions.

    broker.group_configs.value("billing", "consumer.session.timeout.ms", broker.config)

The broker holds one `EntityConfigs` a kind and asks it; the controller fills it from the store and
checks what clients would have it say.
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
"""The first must be greater than the second."""


class EntityConfigs:
    """What was set for each name of one kind; a name of which nothing was set is not here."""

    def __init__(self, keys: Mapping[str, Definition], prefix: str = "") -> None:
        """`prefix`: the broker's key that is `name`'s default begins with it; "": there is none."""
        self.keys = keys
        self.prefix = prefix
        self.texts: dict[str, dict[str, str]] = {}
        """As set, by name. Changed by `put` only."""
        self.changed: list[Callable[[str], None]] = []
        """Called with each name whose settings changed."""

    def put(self, name: str, config: Mapping[str, str]) -> None:
        """Set exactly `config` for `name`; nothing: it is forgotten."""
        if config:
            self.texts[name] = dict(config)
        else:
            self.texts.pop(name, None)
        for told in self.changed:
            told(name)

    def value(self, name: str, key: str, broker: BrokerConfig) -> Value:
        """Return the value of `key` for `name`.

        That is its own, else the broker's, else Kafka's default.
        """
        own = self.texts.get(name)
        if own is not None and key in own:
            with suppress(ValueError):
                return self.keys[key].parse(own[key])
        return self.default(key, broker)

    def default(self, key: str, broker: BrokerConfig) -> Value:
        """Return the value of `key` where nothing is set."""
        synonym = self.synonym(key)
        return self.keys[key].default if synonym is None else broker.effective(synonym)

    def synonym(self, key: str) -> str | None:
        """Return the broker's key that is the default of `key`, if the broker has it."""
        name = self.prefix + key
        return name if self.prefix and name in BROKER else None


def group_configs() -> EntityConfigs:
    """Make the settings of groups, none set."""
    return EntityConfigs(GROUP, GROUP_PREFIX)


def check_group_config(config: Mapping[str, str], broker: BrokerConfig) -> None:
    """Refuse what is no group's setting, or not within the broker's bounds; ConfigError."""
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
    """Refuse a `match` that cannot be understood; ConfigError."""
    try:
        match_patterns(value)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _number(value: Value) -> float:
    return value if isinstance(value, (int, float)) else 0
