"""`StreamTopics`: writes the settings that policies give to the topics of streams.

The leader of a stream writes those that a change of its policies has changed. A new leader writes
those that are set by policies and that the topic lacks: the former one may have failed before.
"""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.config.descriptions import Alteration, AlterOperation
from headrace.model.errors import ApiError
from headrace.ports.store import StoreError
from headrace.queue_stores.queue_settings import QueueSettings, QueueType
from headrace.queues.model.arguments import settings_of
from headrace.queues.queue_names import queue_topic
from headrace.vhosts.queue_topics import declared_queue, topic_config

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.broker.partition import Partition
    from headrace.cluster.controller_port import SettingsPort
    from headrace.queues.engine.queue_host import QueueHost
    from headrace.queues.engine.virtual_hosts import VirtualHosts
    from headrace.queues.model.declarations import DeclaredQueue

RETRY_SECONDS = 1.0
"""Seconds after which a failed change is repeated."""


class StreamTopics:
    """The changes of streams' topics by one broker. On the event loop."""

    def __init__(
        self, broker: "Broker", settings: "SettingsPort", virtual_hosts: "VirtualHosts"
    ) -> None:
        """Follow the partitions that this broker leads. `settings`: those of topics."""
        self._broker = broker
        self._settings = settings
        self._virtual_hosts = virtual_hosts
        self._wanted: dict[str, dict[str, str]] = {}
        """Settings to be written, by topic."""
        self._running: asyncio.Task[None] | None = None
        broker.opened.append(self._opened)

    def close(self) -> None:
        """Write nothing more: the broker stops."""
        self._broker.opened.remove(self._opened)
        self._wanted.clear()
        if self._running is not None:
            self._running.cancel()

    def queue_changed(
        self, host: "QueueHost", queue: "DeclaredQueue", before: QueueSettings
    ) -> None:
        """Have the topic of a stream changed whose settings have changed, if it is led here."""
        topic = queue_topic(host.name, queue.name)
        if _has_own_topic(queue) and (topic, 0) in self._broker.partitions:
            self._want(topic, _differing(before, queue.settings))

    def look(self) -> None:
        """Have the topics changed that lack settings of policies, at the start."""
        for host in self._virtual_hosts.hosts.values():
            if host.model.table.present is not None:
                for queue in host.model.queues.values():
                    self._look_at(queue_topic(host.name, queue.name), queue)

    def _opened(self, partition: "Partition") -> None:
        if not any(host.model.table.present for host in self._virtual_hosts.hosts.values()):
            return
        topic = partition.topic_partition.topic
        found = declared_queue(self._virtual_hosts, topic)
        if found is not None:
            self._look_at(topic, found[1])

    def _look_at(self, topic: str, queue: "DeclaredQueue") -> None:
        info = self._broker.image.topics.get(topic)
        if info is not None and _has_own_topic(queue):
            by_arguments = settings_of(queue.arguments, queue.settings.queue_type)
            wanted = _differing(by_arguments, queue.settings)
            self._want(
                topic, {key: wanted[key] for key in wanted if info.config.get(key) != wanted[key]}
            )

    def _want(self, topic: str, wanted: Mapping[str, str]) -> None:
        if wanted:
            self._wanted.setdefault(topic, {}).update(wanted)
            if self._running is None:
                self._running = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            while self._wanted:
                topic, wanted = self._wanted.popitem()
                if not await self._written(topic, wanted):
                    self._wanted[topic] = wanted | self._wanted.get(topic, {})
                    await asyncio.sleep(RETRY_SECONDS)
        finally:
            self._running = None

    async def _written(self, topic: str, wanted: Mapping[str, str]) -> bool:
        """Write settings of a topic that is led here; return False if that is to be repeated."""
        if (topic, 0) not in self._broker.partitions:
            return True
        change = [Alteration(key, AlterOperation.SET, value) for key, value in wanted.items()]
        try:
            await self._settings.alter_topic(topic, change)
        except (ApiError, StoreError):
            return False
        return True


def _has_own_topic(queue: "DeclaredQueue") -> bool:
    settings = queue.settings
    return settings.queue_type is QueueType.STREAM and settings.topic is None


def _differing(before: QueueSettings, after: QueueSettings) -> dict[str, str]:
    """Return the topic settings of a stream that differ from those of earlier settings."""
    former = topic_config(before)
    return {key: value for key, value in topic_config(after).items() if former[key] != value}
