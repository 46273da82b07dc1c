"""`EntitySettings`: settings of groups and of client metrics subscriptions."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple

from headrace.broker.broker import Broker
from headrace.cluster.store import znodes
from headrace.cluster.store.catalog import Catalog
from headrace.cluster.store.reaction import log_failure
from headrace.config.broker import BrokerConfig
from headrace.config.descriptions import (
    Change,
    ConfigEntry,
    ConfigSource,
    DynamicConfig,
    Synonym,
    altered,
)
from headrace.config.entity_settings import EntityConfigs, check_group_config, check_match
from headrace.config.keys.entities import CLIENT_METRICS, GROUPS_OWN
from headrace.config.value_types import text_of
from headrace.model.errors import ApiError, ConfigError, ErrorCode
from headrace.ports.store import StoreError
from headrace.posix.awaiting import carried_on

_logger = logging.getLogger(__name__)

Check = Callable[[Mapping[str, str], BrokerConfig], None]
"""Checks the settings of an entity together. ApiError: they are invalid."""


class _Kind(NamedTuple):
    """A kind of named entities that have settings."""

    word: str
    root: str
    source: ConfigSource
    configs: EntityConfigs
    check: Check


class EntitySettings:
    """The settings of all entities of one kind."""

    def __init__(
        self,
        kind: _Kind,
        broker: Broker,
        catalog: Catalog,
        change: asyncio.Lock,
        dynamic: Callable[[], DynamicConfig],
    ) -> None:
        """Create without settings; used by `of_groups` and `of_client_metrics`."""
        self._kind = kind
        self._broker = broker
        self._catalog = catalog
        self._change = change
        self._dynamic = dynamic

    @classmethod
    def of_groups(
        cls,
        broker: Broker,
        catalog: Catalog,
        change: asyncio.Lock,
        dynamic: Callable[[], DynamicConfig],
    ) -> "EntitySettings":
        """Return the settings of groups; a group need not exist."""
        kind = _Kind(
            "Group", znodes.GROUP_CONFIGS, ConfigSource.GROUP, broker.group_configs, _check_group
        )
        return cls(kind, broker, catalog, change, dynamic)

    @classmethod
    def of_client_metrics(
        cls,
        broker: Broker,
        catalog: Catalog,
        change: asyncio.Lock,
        dynamic: Callable[[], DynamicConfig],
    ) -> "EntitySettings":
        """Return the settings of client metrics subscriptions."""
        kind = _Kind(
            "Client metrics subscription",
            znodes.CLIENT_METRICS_CONFIGS,
            ConfigSource.CLIENT_METRICS,
            broker.metrics_subscriptions,
            _check_client_metrics,
        )
        return cls(kind, broker, catalog, change, dynamic)

    async def load(self) -> None:
        """Replace all settings by those of the store."""
        found = await self._catalog.configs.entities(self._kind.root)
        for name in [name for name in self._kind.configs.texts if name not in found]:
            self.take(name, {})
        for name, config in found.items():
            self.take(name, config)

    async def read(self, name: str) -> None:
        """Replace the settings of `name` by those of the store."""
        self.take(name, await self._catalog.configs.at(self._path(name)))

    def take(self, name: str, config: Mapping[str, str]) -> None:
        """Apply these settings of `name`, if they differ."""
        if config != self._kind.configs.texts.get(name, {}):
            self._kind.configs.put(name, config)

    def names(self) -> list[str]:
        """Return the names of all entities with settings, sorted."""
        return sorted(self._kind.configs.texts)

    def describe(self, name: str) -> list[ConfigEntry]:
        """Return all settings of `name`, which need not exist. ApiError INVALID_REQUEST for ""."""
        self._check_name(name)
        configs = self._kind.configs
        own = configs.texts.get(name, {})
        found = []
        for key, definition in configs.keys.items():
            value = text_of(configs.value(name, key, self._broker.config))
            synonyms = self._default_synonyms(key)
            if key in own:
                synonyms.insert(0, Synonym(key, value, self._kind.source))
            source = synonyms[0].source if synonyms else ConfigSource.DEFAULT
            found.append(ConfigEntry(definition, value, source, False, tuple(synonyms)))
        return found

    def _default_synonyms(self, key: str) -> list[Synonym]:
        configs = self._kind.configs
        broker_key = configs.synonym(key)
        if broker_key is not None:
            return self._dynamic().synonyms(broker_key)
        if not configs.prefix:
            return []
        name = key if key in GROUPS_OWN else configs.prefix + key
        return [Synonym(name, text_of(configs.keys[key].default), ConfigSource.DEFAULT)]

    async def alter(self, name: str, change: Change, *, validate_only: bool = False) -> None:
        """Change the settings of `name`, or replace all (a mapping); effective at once.

        Raises ApiError.
        """
        await carried_on(self._alter(name, change, validate_only))

    async def _alter(self, name: str, change: Change, validate_only: bool) -> None:
        self._check_name(name)
        kind = self._kind
        async with self._change:

            def changed(current: dict[str, str]) -> dict[str, str] | None:
                self.take(name, current)
                wanted = self._wanted(name, change)
                kind.check(wanted, self._broker.config)
                return None if validate_only or wanted == current else wanted

            try:
                configs = self._catalog.configs
                wanted = await configs.change(self._path(name), changed, drop_empty=True)
            except StoreError as error:
                raise store_failed(error) from error
            if wanted is not None:
                self.take(name, wanted)

    def _wanted(self, name: str, change: Change) -> dict[str, str]:
        if isinstance(change, Mapping):
            if None in change.values():
                raise ApiError(ErrorCode.INVALID_CONFIG, "a value is missing")
            return {key: text for key, text in change.items() if text is not None}
        now = {entry.name: entry.value for entry in self.describe(name)}
        configs = self._kind.configs
        return altered(configs.texts.get(name, {}), change, configs.keys, now)

    def _path(self, name: str) -> str:
        return f"{self._kind.root}/{znodes.quote_entity(name)}"

    def _check_name(self, name: str) -> None:
        if not name:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{self._kind.word} name must not be empty")


def _check_group(config: Mapping[str, str], broker: BrokerConfig) -> None:
    try:
        check_group_config(config, broker)
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error


def _check_client_metrics(config: Mapping[str, str], broker: BrokerConfig) -> None:
    del broker  # none of its settings is a bound for these
    keys = CLIENT_METRICS
    for name, text in config.items():
        if name not in keys:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {name}"
            )
        try:
            value = keys[name].parse(text)
        except ValueError as error:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{name}={text}: {error}") from error
        if name == "match":
            try:
                check_match(value)
            except ConfigError as error:
                raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error


def store_failed(error: StoreError) -> ApiError:
    """Log that the store failed or is unreachable; return the error for the client."""
    log_failure(_logger, "metadata store", error)
    return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"metadata store: {error}")
