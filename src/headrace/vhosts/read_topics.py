"""Streams that read Kafka topics: follow the deletion and the growth of their topics."""

import logging
from typing import TYPE_CHECKING

from headrace.broker.metadata_image import ImageDelta, MetadataImage

if TYPE_CHECKING:
    from headrace.queues.engine.queue_host import QueueHost
    from headrace.queues.engine.virtual_hosts import VirtualHosts

_logger = logging.getLogger(__name__)


class ReadTopics:
    """The topics that streams of all vhosts read. Deletes streams with their topics.

    Consumers of a stream are cancelled if its topic gets a second partition. In a cluster each
    broker asks for the deletion, which is done once.
    """

    def __init__(self, image: MetadataImage, virtual_hosts: "VirtualHosts") -> None:
        """Begin to observe the metadata image for changes of streams' topics."""
        self._virtual_hosts = virtual_hosts
        image.observers.append(self._picture_changed)

    def _picture_changed(self, delta: ImageDelta, structural: bool) -> None:
        if not structural:
            return
        grown = {topic.name for topic in delta.topics if len(topic.partitions) > 1}
        for host in self._virtual_hosts.hosts.values():
            for name, read in list(host.model.router.read_topics.items()):
                if read.topic in delta.removed:
                    self._delete(host, name, read.topic)
                elif read.topic in grown and name in host.queues:
                    host.dismiss(host.queues[name])

    def _delete(self, host: "QueueHost", name: str, topic: str) -> None:
        _logger.info(
            "stream %r (vhost %r) is deleted, as the Kafka topic %r that it reads was deleted",
            name, host.name, topic,
        )  # fmt: skip
        if host.ended is not None:
            host.ended(name)
            return
        host.delete_queue(name, None, if_unused=False, if_empty=False)
        self._virtual_hosts.turns.soon()
