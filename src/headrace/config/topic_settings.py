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
    """Return the value of topic key `name` that `text` stands for; ConfigError: one line."""
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
    """Parse all of a topic's own values, checked also against each other.

    ConfigError, a line each.
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
    """Return those of a topic's stored settings that can be followed, and what is wrong, by line.

    Another tool, or an earlier version, may have stored what is refused now: the others hold.
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
    """Return what topic key `name` is where the topic does not say.

    That is the broker's synonym, or Kafka's.
    """
    definition = TOPIC[name]
    return (
        definition.default if definition.synonym is None else broker.effective(definition.synonym)
    )


def topic_log_config(broker: BrokerConfig, overrides: Mapping[str, str]) -> LogConfig:
    """Return the settings of a log.

    These are `overrides` (texts, as stored with the topic) over the broker's.
    """
    own = parse_topic_configs(overrides)
    fields: dict[str, Any] = {
        attribute(definition.name): own.get(definition.name, topic_default(broker, definition.name))
        for definition in IN_USE
    }
    fields["cleanup_policy"] = frozenset(fields["cleanup_policy"])
    if "compact" in fields["cleanup_policy"]:
        # The active segment is never compacted: it is closed in time (Kafka's maxSegmentMs).
        fields["segment_ms"] = min(fields["segment_ms"], fields["max_compaction_lag_ms"])
    return LogConfig(**fields)
