"""Topic settings: a topic's own values over the broker's."""

from collections.abc import Mapping
from typing import Any

from headrace.config.broker import BrokerConfig
from headrace.config.definitions import TOPIC, nearest_topic_key
from headrace.config.keys.row import attribute
from headrace.config.log_config import IN_USE, LogConfig
from headrace.config.value_types import Value
from headrace.model.errors import ConfigError


def parse_topic_config(name: str, text: str) -> Value:
    """Return the value of topic key `name` for `text`; ConfigError, one line."""
    definition = TOPIC.get(name)
    if definition is None:
        near = nearest_topic_key(name)
        raise ConfigError(
            f"{name}={text}: no such topic key" + (f"; did you mean {near}?" if near else "")
        )
    try:
        return definition.parse(text)
    except ValueError as error:
        raise ConfigError(f"{name}={text}: {error}") from None


def parse_topic_configs(overrides: Mapping[str, str]) -> dict[str, Value]:
    """Parse a topic's own settings and check them against each other.

    ConfigError, one line each.
    """
    values: dict[str, Value] = {}
    problems: list[str] = []
    for name, text in overrides.items():
        try:
            values[name] = parse_topic_config(name, text)
        except ConfigError as error:
            problems.append(str(error))
    least, most = values.get("min.compaction.lag.ms"), values.get("max.compaction.lag.ms")
    if isinstance(least, int) and isinstance(most, int) and least > most:
        problems.append(f"min.compaction.lag.ms={least}: more than max.compaction.lag.ms={most}")
    if problems:
        raise ConfigError("\n".join(problems))
    return values


def sound_topic_configs(overrides: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the valid ones of a topic's stored settings, and a line for each invalid one.

    Another tool or an earlier version may have stored a value that is refused now.
    """
    sound: dict[str, str] = {}
    problems: list[str] = []
    for name, text in overrides.items():
        try:
            parse_topic_configs({**sound, name: text})
        except ConfigError as error:
            problems.append(str(error))
        else:
            sound[name] = text
    return sound, problems


def topic_default(broker: BrokerConfig, name: str) -> Value:
    """Return the value of topic key `name` for a topic that does not set it.

    That is the value of the broker key that is its synonym, or else Kafka's default.
    """
    definition = TOPIC[name]
    return (
        definition.default if definition.synonym is None else broker.effective(definition.synonym)
    )


def topic_log_config(broker: BrokerConfig, overrides: Mapping[str, str]) -> LogConfig:
    """Return a log's settings: a topic's stored `overrides` over the broker's.

    Raises ConfigError.
    """
    own = parse_topic_configs(overrides)
    fields: dict[str, Any] = {
        attribute(definition.name): own.get(definition.name, topic_default(broker, definition.name))
        for definition in IN_USE
    }
    fields["cleanup_policy"] = frozenset(fields["cleanup_policy"])
    if "compact" in fields["cleanup_policy"]:
        # The active segment is never compacted, so it is rolled in time (Kafka's maxSegmentMs).
        fields["segment_ms"] = min(fields["segment_ms"], fields["max_compaction_lag_ms"])
    return LogConfig(**fields)
