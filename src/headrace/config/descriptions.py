"""The logic of DescribeConfigs and AlterConfigs: keys, values, and the source of each value.

Works without I/O on the `BrokerConfig` at start, the dynamic settings of the metadata store, and a
topic's overrides. Orders and sources are Kafka 4.3's (ConfigHelper, DynamicBrokerConfig).
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
"""Keys that show the broker's actual id."""
_SET_FOR_ALL = "min.insync.replicas"
"""The key that is always shown as altered for all brokers (see `_shared_shown`)."""


class ConfigSource(IntEnum):
    """The source of a value, numbered as in DescribeConfigs."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class AlterOperation(IntEnum):
    """The operations of IncrementalAlterConfigs on one key."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Synonym(NamedTuple):
    """A possible source of a value; the first in a list of them is in effect."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """A key in a DescribeConfigs response. Sensitive values are None."""

    definition: Definition
    value: str | None
    source: ConfigSource
    read_only: bool
    synonyms: tuple[Synonym, ...]
    """All sources with a value, strongest first."""

    @property
    def name(self) -> str:
        """The name of the configuration key."""
        return self.definition.name


class Alteration(NamedTuple):
    """A requested change of one key. `value` is None with DELETE only."""

    name: str
    operation: AlterOperation
    value: str | None


Change = Sequence[Alteration] | Mapping[str, str | None]
"""Incremental alterations, or all settings by name, which replace the old ones."""


class DynamicConfig(NamedTuple):
    """A broker's configuration at run time: as started, plus dynamic alterations."""

    static: BrokerConfig
    """The configuration at the start."""
    shared: Mapping[str, str] = MappingProxyType({})
    """Keys altered for all brokers."""
    own: Mapping[str, str] = MappingProxyType({})
    """Keys altered for this broker; they override the shared ones."""
    broker_id: int = -1
    """The broker's actual id, configured or not."""

    def effective(self) -> BrokerConfig:
        """Return the settings in effect; stored alterations that no longer parse are ignored."""
        changes: dict[str, Value] = {}
        for name, text in {**self.shared, **self.own}.items():
            definition = used_definition(name)
            if definition is not None and definition.mode is not Mode.READ_ONLY:
                with suppress(ValueError):
                    changes[name] = definition.parse(text)
        return self.static.updated(changes) if changes else self.static

    def describe_broker(self) -> list[ConfigEntry]:
        """Return the entries of this broker's keys, sorted by name.

        Keys without effect here, and keys that are set at run time only, appear if they were
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
        """Return the entries of keys altered for all brokers: the response for broker name ""."""
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
        """Return the entries of all topic keys for a topic with these `overrides`, by name."""
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
        """Return the entry of a key that was altered and that Headrace does not use."""
        definition = unused_definition(name) or Definition(name, Kind.UNKNOWN, None, "")
        found = self._altered(name, hidden=definition.sensitive)
        return ConfigEntry(definition, found[0].value, found[0].source, False, tuple(found))

    def _altered(self, name: str, *, hidden: bool) -> list[Synonym]:
        """Return the alterations of key `name`, strongest first."""
        return [
            Synonym(name, None if hidden else settings[name], source)
            for settings, source in (
                (self.own, ConfigSource.DYNAMIC_BROKER),
                (self._shared_shown(), ConfigSource.DYNAMIC_DEFAULT_BROKER),
            )
            if name in settings
        ]

    def _shared_shown(self) -> Mapping[str, str]:
        """Return the keys altered for all brokers, as clients see them.

        Like Kafka, min.insync.replicas always appears as altered for the whole cluster, with the
        value at the start: the controller bases the election of leaders on it (KIP-966).
        """
        return {_SET_FOR_ALL: str(self.static.min_insync_replicas), **self.shared}

    def synonyms(self, name: str) -> list[Synonym]:
        """Return the sources of broker key `name` that have a value: strongest first, default last.

        A coarser key appears only after a value of the key itself, as in Kafka (ConfigHelper).
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
    """Return a topic's requested settings, checked as a whole. ApiError INVALID_CONFIG."""
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
    """Return requested dynamic settings of brokers, checked as a whole. ApiError INVALID_REQUEST.

    Refuses keys that cannot be altered at run time; with `shared`, also keys that only a single
    broker can have.
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
    """Return `current` after incremental alterations; the caller checks the result as a whole.

    `effective` has the lists to append to where `current` sets none. ApiError INVALID_REQUEST: a
    key named twice or a missing value; INVALID_CONFIG: APPEND or SUBTRACT on a key that is not a
    list.
    """
    after = dict(current)
    seen: set[str] = set()
    for name, operation, value in alterations:
        if name in seen:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"{name} appears more than once in the request"
            )
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
