"""`Settings`: settings at run time: described, changed, and applied to the broker and its logs."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from headrace.broker.broker import Broker
from headrace.broker.metadata_image import ImageDelta
from headrace.cluster.settings.entity_settings import EntitySettings, store_failed
from headrace.cluster.settings.quota_settings import QuotaSettings, entity_of
from headrace.cluster.settings.user_settings import UserSettings
from headrace.cluster.store import znodes
from headrace.cluster.store.catalog import Catalog
from headrace.cluster.topics.internal_topics import internal_config
from headrace.config.broker import BrokerConfig
from headrace.config.definitions import BROKER, TOPIC
from headrace.config.descriptions import (
    Change,
    ConfigEntry,
    DynamicConfig,
    altered,
    check_broker_config,
    check_topic_config,
)
from headrace.config.listeners import spoken_rows
from headrace.config.log_config import LogConfig
from headrace.config.topic_settings import sound_topic_configs, topic_log_config
from headrace.model.errors import ApiError, ConfigError, ErrorCode
from headrace.model.nouns import INTERNAL_TOPICS, TopicPartition
from headrace.model.protocols import loaded
from headrace.model.secret import Secret
from headrace.ports.store import NoNode, StoreError
from headrace.posix.awaiting import carried_on

if TYPE_CHECKING:
    from headrace.cluster.settings.acl_settings import AclSettings
    from headrace.cluster.settings.stored_settings import StoredSettings
    from headrace.cluster.settings.token_settings import TokenSettings

_logger = logging.getLogger(__name__)

_QUOTA_KINDS = frozenset({"users", "clients", "ips"})


class Settings:
    """Settings of topics, brokers, groups and clients.

    Implements `controller_port.SettingsPort`.
    """

    def __init__(self, broker: Broker, catalog: Catalog, change: asyncio.Lock) -> None:
        """Create the run-time settings.

        `change`: lock held during a change, so that one is made at a time.
        """
        self.quotas = QuotaSettings(broker, catalog, change)
        self.users = UserSettings(broker, catalog, change)
        self._broker = broker
        self._catalog = catalog
        self._change = change
        self._dynamic = DynamicConfig(broker.config, broker_id=broker.broker_id)
        self._parsed: dict[tuple[tuple[str, str], ...], LogConfig] = {}
        self._parsed_for = broker.config
        """The configuration whose defaults `_parsed` has."""
        self.groups = EntitySettings.of_groups(broker, catalog, change, self.dynamic)
        self.client_metrics = EntitySettings.of_client_metrics(
            broker, catalog, change, self.dynamic
        )

    @cached_property
    def acls(self) -> "AclSettings":
        """The ACLs; without an authorizer their code is not loaded."""
        from headrace.cluster.settings.acl_settings import AclSettings

        return AclSettings(self._broker, self._catalog.store, self._change)

    @cached_property
    def tokens(self) -> "TokenSettings | None":
        """Delegation tokens; None: they are disabled, and their code is not loaded."""
        config = self._broker.config
        secret = config.delegation_token_secret_key or config.delegation_token_master_key
        if not secret:
            return None
        from headrace.cluster.settings.token_settings import TokenSettings

        return TokenSettings(self._broker, self._catalog.store, self._change, Secret(secret))

    @cached_property
    def stored(self) -> "dict[str, StoredSettings]":
        """Settings of other protocols with listeners, by the protocol's name."""
        config = self._broker.config
        return {
            row.name: loaded(row.stored)(self._catalog.configs, self._change, config)
            for row in spoken_rows(config.listeners)
            if row.stored
        }

    def stop(self) -> None:
        """Cancel all timers."""
        if self.tokens is not None:
            self.tokens.stop()

    async def load(self) -> None:
        """Load the settings of brokers, groups and clients from the store."""
        await self._read_broker()
        await self.groups.load()
        await self.client_metrics.load()
        if not self._broker.authorizer.allows_all:
            await self.acls.load()
        if self.tokens is not None:
            await self.tokens.load()
        for stored in self.stored.values():
            await stored.load()
        found = await self._catalog.configs.quotas()
        of_users = {entity_of(path): config for path, config in found.items()}
        self.quotas.take_all(of_users)
        self.users.take_all(of_users)

    async def load_again(self) -> None:
        """Load all settings from the store again, also those of topics in the metadata image."""
        await self.load()
        self._take_topics(await self._catalog.topic_configs(list(self._broker.image.topics)))

    async def read(self, entity: str) -> Mapping[str, str] | None:
        """Read one entity's settings from the store, by its path below `/config`, and apply them.

        Returns a topic's settings, whether or not the metadata image has the topic.
        """
        kind, _, name = entity.partition("/")
        if kind == "topics":
            configs = await self._catalog.topic_configs([name])
            self._take_topics(configs)
            return configs[name]
        if kind == "brokers":
            await self._read_broker()
        elif kind in _QUOTA_KINDS:
            path = f"/config/{entity}"
            whose, config = entity_of(path), await self._catalog.configs.at(path)
            self.quotas.take(whose, config)
            self.users.take(whose, config)
        elif kind == "groups":
            await self.groups.read(znodes.unquote_entity(name))
        elif kind == "client-metrics":
            await self.client_metrics.read(znodes.unquote_entity(name))
        else:
            for stored in self.stored.values():
                if kind in stored.kinds:
                    await stored.read(kind, name)
        return None

    async def _read_broker(self) -> None:
        shared, own = await self._catalog.configs.of_broker(self._broker.broker_id)
        if (shared, own) != (self._dynamic.shared, self._dynamic.own):
            self._dynamic = self._dynamic._replace(shared=shared, own=own)
            self._reconfigure(self._dynamic.effective())
        self._broker.image.drain(await self._catalog.configs.drained())

    def _take_topics(self, configs: Mapping[str, Mapping[str, str]]) -> None:
        known = self._broker.image.topics
        changed = [
            replace(known[name], config=config)
            for name, config in configs.items()
            if name in known and known[name].config != config
        ]
        if changed:
            self._broker.publish(ImageDelta(changed))
        for topic in changed:
            self._broker.reconfigure_topic(topic.name, self.log_config(topic.name, topic.config))

    def dynamic(self) -> DynamicConfig:
        """Return the broker's present settings."""
        return self._dynamic

    def log_config(self, name: str, overrides: Mapping[str, str]) -> LogConfig:
        """Return the present settings of a topic's logs.

        Topics with equal settings share an object.
        """
        if self._parsed_for is not self._broker.config:
            self._parsed_for = self._broker.config
            self._parsed.clear()
        key = tuple(sorted(overrides.items()))
        known = self._parsed.get(key)
        if known is None:
            known = self._parsed[key] = self._parse(name, overrides)
        return known

    async def log_configs(self) -> Callable[[TopicPartition], LogConfig]:
        """Return the function that gives a partition's log settings, from its topic in the store.

        Topics that the store lacks get the broker's settings, internal ones their own.
        """
        stored = {
            name: self.log_config(name, overrides)
            for name, overrides in (await self._catalog.topic_configs()).items()
        }
        for name in INTERNAL_TOPICS - stored.keys():
            stored[name] = self.log_config(name, internal_config(name, self._broker.config))
        default = self.log_config("", {})
        return lambda partition: stored.get(partition.topic, default)

    def _parse(self, name: str, overrides: Mapping[str, str]) -> LogConfig:
        try:
            return topic_log_config(self._broker.config, overrides)
        except ConfigError:
            # Better without these than without the topic, or without its other settings.
            sound, problems = sound_topic_configs(overrides)
            _logger.error("topic %s: settings ignored: %s", name, "; ".join(problems))
            return topic_log_config(self._broker.config, sound)

    def describe_topic(self, name: str) -> list[ConfigEntry]:
        """Return all settings of a topic; ApiError UNKNOWN_TOPIC_OR_PARTITION."""
        topic = self._broker.image.topics.get(name)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return self._dynamic.describe_topic(topic.config)

    def describe_planned(self, overrides: Mapping[str, str]) -> list[ConfigEntry]:
        """Return all settings that a topic with these overrides has or would have."""
        return self._dynamic.describe_topic(overrides)

    def describe_broker(self, name: str) -> list[ConfigEntry]:
        """Return all settings of this broker, or those set for all brokers ("").

        ApiError INVALID_REQUEST for another broker's id, whose settings are known only there.
        """
        if not name:
            return self._dynamic.describe_shared()
        self._check_broker_name(name)
        return self._dynamic.describe_broker()

    async def alter_topic(
        self,
        name: str,
        change: Change,
        *,
        validate_only: bool = False,
    ) -> None:
        """Change a topic's own settings, or replace all (a mapping); effective at once.

        Raises ApiError.
        """
        await carried_on(self._alter_topic(name, change, validate_only))

    async def _alter_topic(
        self,
        name: str,
        change: Change,
        validate_only: bool,
    ) -> None:
        def changed(current: Mapping[str, str]) -> dict[str, str] | None:
            if isinstance(change, Mapping):
                wanted = check_topic_config(change)
            else:
                now = {entry.name: entry.value for entry in self._dynamic.describe_topic(current)}
                wanted = check_topic_config(altered(current, change, TOPIC, now))
            return None if validate_only else wanted

        async with self._change:
            if name not in self._broker.image.topics:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            path = znodes.topic_config_path(name)
            wanted = await self._altered(path, changed, owner=znodes.topic_path(name))
            if wanted is not None:
                self._take_topics({name: wanted})

    async def alter_broker(
        self,
        name: str,
        change: Change,
        *,
        validate_only: bool = False,
    ) -> None:
        """Change the run-time settings of this broker, or those of every broker ("").

        Raises ApiError.
        """
        await carried_on(self._alter_broker(name, change, validate_only))

    async def _alter_broker(
        self,
        name: str,
        change: Change,
        validate_only: bool,
    ) -> None:
        if name:
            self._check_broker_name(name)
        async with self._change:

            def changed(current: dict[str, str]) -> dict[str, str] | None:
                if isinstance(change, Mapping):
                    if None in change.values():
                        raise ApiError(ErrorCode.INVALID_REQUEST, "a value is missing")
                    wanted = {key: text for key, text in change.items() if text is not None}
                else:
                    self._dynamic = self._dynamic_with(name, current)
                    now = {entry.name: entry.value for entry in self._dynamic.describe_broker()}
                    wanted = altered(current, change, BROKER, now)
                wanted = check_broker_config(wanted, self._dynamic.static, shared=not name)
                return None if validate_only else wanted

            path = znodes.broker_config_path(name or znodes.CLUSTER_DEFAULT)
            wanted = await self._altered(path, changed)
            if wanted is not None:
                self._dynamic = self._dynamic_with(name, wanted)
                self._reconfigure(self._dynamic.effective())

    def _dynamic_with(self, name: str, altered: Mapping[str, str]) -> DynamicConfig:
        dynamic = self._dynamic
        return dynamic._replace(own=altered) if name else dynamic._replace(shared=altered)

    def _reconfigure(self, config: BrokerConfig) -> None:
        """Apply the broker's new settings; topics are updated only if a default has changed."""
        before = self.log_config("", {})
        self._broker.reconfigure(config)
        if self.log_config("", {}) == before:
            return
        for topic in self._broker.image.topics.values():
            self._broker.reconfigure_topic(topic.name, self.log_config(topic.name, topic.config))

    async def _altered(
        self,
        path: str,
        change: Callable[[dict[str, str]], Mapping[str, str] | None],
        owner: str | None = None,
    ) -> Mapping[str, str] | None:
        try:
            return await self._catalog.configs.change(path, change, owner=owner)
        except NoNode:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) from None
        except StoreError as error:
            raise store_failed(error) from error

    def _check_broker_name(self, name: str) -> None:
        if name != str(self._broker.broker_id):
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"this is broker {self._broker.broker_id}: ask broker {name[:20]!r} itself",
            )
