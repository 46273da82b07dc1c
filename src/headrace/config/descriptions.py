"""What DescribeConfigs tells and AlterConfigs may change: keys, values, and where each comes from.

Pure: works on a `BrokerConfig` as it was started with, the dynamic settings of the store over it,
and a topic's own. Orders and sources are Kafka 4.3's (ConfigHelper, DynamicBrokerConfig).
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from enum import IntEnum
from itertools import dropwhile
from types import MappingProxyType
from typing import NamedTuple

from headrace.config.broker import BrokerConfig, Source
from headrace.config.definitions import (
    BROKER,
    COARSER,
    TOPIC,
    broker_definition,
    used_definition,
)
from headrace.config.keys.unused import unused_definition
from headrace.config.topic_settings import (
    parse_topic_config,
    parse_topic_configs,
    sound_topic_configs,
    topic_default,
)
from headrace.config.value_types import Definition, Kind, Mode, Value, text_of
from headrace.model.errors import ApiError, ConfigError, ErrorCode

_IDS = ("broker.id", "node.id")
_SET_FOR_ALL = "min.insync.replicas"


class ConfigSource(IntEnum):
    """Where a value comes from, as DescribeConfigs numbers it."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class AlterOperation(IntEnum):
    """What IncrementalAlterConfigs does to one key."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Synonym(NamedTuple):
    """One of the places a value could come from; the first of them is where it does."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """One key as DescribeConfigs answers it. Sensitive values are None."""

    definition: Definition
    value: str | None
    source: ConfigSource
    read_only: bool
    synonyms: tuple[Synonym, ...]

    @property
    def name(self) -> str:
        """The key."""
        return self.definition.name


class Alteration(NamedTuple):
    """One change asked for. `value` is None with DELETE only."""

    name: str
    operation: AlterOperation
    value: str | None


Change = Sequence[Alteration] | Mapping[str, str | None]
"""Incremental changes, or all settings there shall be."""


class DynamicConfig(NamedTuple):
    """The broker's configuration at run time: as started, and what was altered since."""

    static: BrokerConfig
    shared: Mapping[str, str] = MappingProxyType({})
    """Altered for all brokers."""
    own: Mapping[str, str] = MappingProxyType({})
    """Altered for this broker: wins."""
    broker_id: int = -1
    """The id this broker goes by, whether or not somebody configured it."""

    def effective(self) -> BrokerConfig:
        """Return the settings to be followed now. Those that no longer parse are left out."""
        changes: dict[str, Value] = {}
        for name, text in {**self.shared, **self.own}.items():
            definition = used_definition(name)
            if definition is not None and definition.mode is not Mode.READ_ONLY:
                with suppress(ValueError):
                    changes[name] = definition.parse(text)
        return self.static.updated(changes) if changes else self.static

    def describe_broker(self) -> list[ConfigEntry]:
        """Return all keys of this broker, by name.

        Of those without effect here, and those that are taken at run time only, the ones that were
        altered.
        """
        altered_names = {*self.own, *self.shared}
        unused = [self._unused_entry(name) for name in sorted(altered_names - BROKER.keys())]
        used = [
            self._broker_entry(definition)
            for name, definition in BROKER.items()
            if not definition.altered_only or name in altered_names
        ]
        return used + unused

    def describe_shared(self) -> list[ConfigEntry]:
        """Return the keys altered for all brokers, nothing else.

        This is the answer for the empty broker name.
        """
        shared = self._shared_shown()
        found = [
            self._broker_entry(BROKER[name]) if name in BROKER else self._unused_entry(name)
            for name in sorted(shared)
        ]
        return [
            entry._replace(
                value=shared[entry.name] if entry.value is not None else None,
                source=ConfigSource.DYNAMIC_DEFAULT_BROKER,
                synonyms=tuple(
                    synonym
                    for synonym in entry.synonyms
                    if synonym.source is ConfigSource.DYNAMIC_DEFAULT_BROKER
                ),
            )
            for entry in found
        ]

    def describe_topic(self, overrides: Mapping[str, str]) -> list[ConfigEntry]:
        """Return all keys of a topic with its `overrides`, by name."""
        effective = self.effective()
        sound, _ = sound_topic_configs(overrides)
        return [self._topic_entry(definition, sound, effective) for definition in TOPIC.values()]

    def _topic_entry(
        self, definition: Definition, overrides: Mapping[str, str], effective: BrokerConfig
    ) -> ConfigEntry:
        name = definition.name
        synonyms = [] if definition.synonym is None else self.synonyms(definition.synonym)
        value = text_of(topic_default(effective, name))
        if name in overrides:
            value = text_of(parse_topic_config(name, overrides[name]))
            synonyms.insert(0, Synonym(name, value, ConfigSource.TOPIC))
        source = synonyms[0].source if synonyms else ConfigSource.DEFAULT
        return ConfigEntry(definition, value, source, False, tuple(synonyms))

    def _broker_entry(self, definition: Definition) -> ConfigEntry:
        name = definition.name
        synonyms = self.synonyms(name)
        effective = self.effective() if name in self.own or name in self.shared else self.static
        value = None if definition.sensitive else text_of(effective.effective(name))
        if name in _IDS:
            value = str(self.broker_id)
        source = synonyms[0].source if synonyms else ConfigSource.DEFAULT
        return ConfigEntry(
            definition, value, source, definition.mode is Mode.READ_ONLY, tuple(synonyms)
        )

    def _unused_entry(self, name: str) -> ConfigEntry:
        """Return the entry of a key that was altered and has no effect here."""
        definition = unused_definition(name) or Definition(name, Kind.UNKNOWN, None, "")
        found = self._altered(name, hidden=definition.sensitive)
        return ConfigEntry(definition, found[0].value, found[0].source, False, tuple(found))

    def _altered(self, name: str, *, hidden: bool) -> list[Synonym]:
        """Return the values that `name` was altered to, strongest first."""
        return [
            Synonym(name, None if hidden else settings[name], source)
            for settings, source in (
                (self.own, ConfigSource.DYNAMIC_BROKER),
                (self._shared_shown(), ConfigSource.DYNAMIC_DEFAULT_BROKER),
            )
            if name in settings
        ]

    def _shared_shown(self) -> Mapping[str, str]:
        """Return what was altered for all brokers, as it is told to clients.

        Kafka sets min.insync.replicas for the whole cluster by itself, to what brokers were started
        with, since it decides with whom a partition may go on (KIP-966).
        """
        return {_SET_FOR_ALL: str(self.static.min_insync_replicas), **self.shared}

    def synonyms(self, name: str) -> list[Synonym]:
        """Return where the broker's key `name` has values from, strongest first, defaults last.

        Coarser keys only behind a value of its own, as Kafka has it (ConfigHelper).
        """
        found: list[Synonym] = []
        names = (name, *COARSER.get(name, ()))
        for key in names:
            hidden = BROKER[key].sensitive
            found += self._altered(key, hidden=hidden)
            if self.static.sources.get(key, Source.DEFAULT) is not Source.DEFAULT:
                value = None if hidden else text_of(self.static.values[key])
                found.append(Synonym(key, value, ConfigSource.STATIC_BROKER))
        for key in names:
            default = text_of(BROKER[key].default)
            if default is not None:
                found.append(Synonym(key, default, ConfigSource.DEFAULT))
        return [*dropwhile(lambda synonym: synonym.name != name, found)]


def check_topic_config(config: Mapping[str, str | None]) -> dict[str, str]:
    """Check a client's settings for a topic, whole; ApiError INVALID_CONFIG with the reason."""
    missing = sorted(name for name, value in config.items() if value is None)
    if missing:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"no value for {', '.join(missing)}")
    given = {name: value for name, value in config.items() if value is not None}
    try:
        parse_topic_configs(given)
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, "; ".join(str(error).splitlines())) from error
    return given


def check_broker_config(
    config: Mapping[str, str], static: BrokerConfig, *, shared: bool
) -> dict[str, str]:
    """Check dynamic settings of brokers, whole; ApiError(INVALID_REQUEST), as Kafka answers.

    Only keys that can be altered at run time; `shared` ones not where they are a broker's own.
    """
    values: dict[str, Value] = {}
    for name, text in config.items():
        definition = broker_definition(name)
        if definition is None:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{name}: no such broker key")
        if definition.mode is Mode.READ_ONLY:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{name} cannot be altered at run time")
        if shared and definition.mode is Mode.PER_BROKER:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"{name} cannot be altered for all brokers at once"
            )
        try:
            value = definition.parse(text)
        except ValueError as error:
            shown = "…" if definition.sensitive else text
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{name}={shown}: {error}") from error
        if definition.in_use:
            values[name] = value
    try:
        static.updated(values)
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, "; ".join(str(error).splitlines())) from error
    return dict(config)


def altered(
    current: Mapping[str, str],
    alterations: Iterable[Alteration],
    keys: Mapping[str, Definition],
    effective: Mapping[str, str | None],
) -> dict[str, str]:
    """Return `current` after incremental changes; the outcome is still to be checked as a whole.

    `effective` holds what a list is appended to where nothing is set. ApiError: INVALID_REQUEST for
    a key named twice or a missing value, INVALID_CONFIG for APPEND and SUBTRACT on what is no list.
    """
    after = dict(current)
    seen: set[str] = set()
    for name, operation, value in alterations:
        if name in seen:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{name} is there twice")
        seen.add(name)
        if operation is AlterOperation.DELETE:
            after.pop(name, None)
            continue
        if value is None:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"no value for {name}")
        if operation is AlterOperation.SET:
            after[name] = value
            continue
        definition = keys.get(name)
        if definition is None or definition.kind is not Kind.LIST:
            raise ApiError(
                ErrorCode.INVALID_CONFIG, f"{name} is no list: it can be set, not added to"
            )
        present = _words(after.get(name, effective.get(name)))
        given = _words(value)
        if operation is AlterOperation.APPEND:
            words = present + [word for word in given if word not in present]
        else:
            words = [word for word in present if word not in given]
        after[name] = ",".join(words)
    return after


def _words(text: str | None) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()] if text else []
