"""Settings at run time: described, altered, and taken at once by the broker and its logs."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace

from headrace.broker.broker import Broker
from headrace.broker.metadata_image import ImageDelta
from headrace.cluster import znodes
from headrace.cluster.catalog import Catalog
from headrace.cluster.settings.config_descriptions import (
    Change,
    ConfigEntry,
    DynamicConfig,
    altered,
    check_broker_config,
    check_topic_config,
)
from headrace.cluster.settings.entity_settings import EntitySettings, store_failed
from headrace.cluster.settings.quota_settings import QuotaSettings
from headrace.config.broker import BrokerConfig
from headrace.config.definitions import BROKER, TOPIC
from headrace.config.log_config import LogConfig
from headrace.config.topic_settings import topic_log_config
from headrace.model.errors import ApiError, ConfigError, ErrorCode
from headrace.ports.store import StoreError

_logger = logging.getLogger(__name__)


class Settings:
    """The controller's part that knows who is configured how."""

    def __init__(self, broker: Broker, catalog: Catalog, change: asyncio.Lock) -> None:
        """`change` is held while something is altered: one change at a time in the cluster."""
        self.quotas = QuotaSettings(broker, catalog, change)
        self._broker = broker
        self._catalog = catalog
        self._change = change
        self._dynamic = DynamicConfig(broker.config, broker_id=broker.broker_id)
        self._parsed: dict[tuple[tuple[str, str], ...], LogConfig] = {}
        self._parsed_for = broker.config
        """Whose defaults `_parsed` was made with."""
        self.groups = EntitySettings.of_groups(broker, catalog, change, self.dynamic)
        self.client_metrics = EntitySettings.of_client_metrics(
            broker, catalog, change, self.dynamic
        )

    async def load(self) -> None:
        """Take up what was altered before the start."""
        shared, own = await self._catalog.broker_configs(self._broker.broker_id)
        self._dynamic = self._dynamic._replace(shared=shared, own=own)
        self._broker.reconfigure(self._dynamic.effective())
        await self.groups.load()
        await self.client_metrics.load()
        await self.quotas.load()

    def dynamic(self) -> DynamicConfig:
        """Return the broker's settings as they are now."""
        return self._dynamic

    def log_config(self, name: str, overrides: Mapping[str, str]) -> LogConfig:
        """Return the settings of a topic's logs now; topics configured alike share one."""
        if self._parsed_for is not self._broker.config:
            self._parsed_for = self._broker.config
            self._parsed.clear()
        key = tuple(sorted(overrides.items()))
        known = self._parsed.get(key)
        if known is None:
            known = self._parsed[key] = self._parse(name, overrides)
        return known

    def _parse(self, name: str, overrides: Mapping[str, str]) -> LogConfig:
        try:
            return topic_log_config(self._broker.config, overrides)
        except ConfigError as error:
            # Written by somebody else's tool: better the defaults than no topic at all.
            _logger.error("topic %s: settings ignored: %s", name, str(error).replace("\n", "; "))
            return topic_log_config(self._broker.config, {})

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
        """Return all settings of this broker, or those altered for all of them ("").

        ApiError INVALID_REQUEST for another broker's id: only it knows.
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
        """Change a topic's own settings, or replace all (a mapping); taken at once. ApiError."""
        await asyncio.shield(self._alter_topic(name, change, validate_only))

    async def _alter_topic(
        self,
        name: str,
        change: Change,
        validate_only: bool,
    ) -> None:
        async with self._change:
            topic = self._broker.image.topics.get(name)
            if topic is None:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            if isinstance(change, Mapping):
                wanted = check_topic_config(change)
            else:
                now = {
                    entry.name: entry.value for entry in self._dynamic.describe_topic(topic.config)
                }
                wanted = check_topic_config(dict(altered(topic.config, change, TOPIC, now)))
            if validate_only:
                return
            path = znodes.topic_config_path(name)
            await self._put_config(path, wanted)
            self._broker.publish(ImageDelta([replace(topic, config=wanted)]))
            self._broker.reconfigure_topic(name, self.log_config(name, wanted))

    async def alter_broker(
        self,
        name: str,
        change: Change,
        *,
        validate_only: bool = False,
    ) -> None:
        """Change what this broker, or every broker (""), is told at run time. ApiError."""
        await asyncio.shield(self._alter_broker(name, change, validate_only))

    async def _alter_broker(
        self,
        name: str,
        change: Change,
        validate_only: bool,
    ) -> None:
        if name:
            self._check_broker_name(name)
        async with self._change:
            dynamic = self._dynamic
            current = dynamic.own if name else dynamic.shared
            if isinstance(change, Mapping):
                if None in change.values():
                    raise ApiError(ErrorCode.INVALID_REQUEST, "a value is missing")
                wanted = {key: text for key, text in change.items() if text is not None}
            else:
                now = {entry.name: entry.value for entry in dynamic.describe_broker()}
                wanted = altered(current, change, BROKER, now)
            wanted = check_broker_config(wanted, dynamic.static, shared=not name)
            if validate_only:
                return
            path = znodes.broker_config_path(name or znodes.CLUSTER_DEFAULT)
            await self._put_config(path, wanted)
            self._dynamic = (
                dynamic._replace(own=wanted) if name else dynamic._replace(shared=wanted)
            )
            self._reconfigure(self._dynamic.effective())

    def _reconfigure(self, config: BrokerConfig) -> None:
        """Take the broker's new settings; topics hear of them only where a default is another."""
        before = self.log_config("", {})
        self._broker.reconfigure(config)
        if self.log_config("", {}) == before:
            return
        for topic in self._broker.image.topics.values():
            self._broker.reconfigure_topic(topic.name, self.log_config(topic.name, topic.config))

    async def _put_config(self, path: str, wanted: Mapping[str, str]) -> None:
        try:
            await self._catalog.put_config(path, wanted, self._broker.clock.monotonic())
        except StoreError as error:
            raise store_failed(error) from error

    def _check_broker_name(self, name: str) -> None:
        if name != str(self._broker.broker_id):
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"this is broker {self._broker.broker_id}: ask broker {name[:20]!r} itself",
            )
