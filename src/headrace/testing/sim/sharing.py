"""Controllers of several brokers over one store, by the narrowest means: for simulations.

The first to come decides, as one broker's Controller does. The others take what it has written: all
read topics and brokers anew whenever the store tells of a change, lead what they are to lead, and
show the picture. Replicas other than the leader do nothing.
"""

import asyncio
import json
from collections.abc import Sequence

from headrace.broker.metadata_image import NO_LEADER, Endpoint, ImageDelta
from headrace.cluster import znodes
from headrace.cluster.controller import Controller
from headrace.cluster.stored_topic import StoredTopic
from headrace.cluster.znodes import Registration
from headrace.model.nouns import BrokerId
from headrace.ports.store import StoreError


class SharingController(Controller):
    """A Controller that lets another one decide where there is one."""

    decides: bool
    """Whether it was the first to come."""
    _stale: asyncio.Event
    _following: asyncio.Task[None]

    async def start(self, endpoints: Sequence[Endpoint]) -> None:
        """Join, take up what is there, and follow the store from now on."""
        broker, catalog = self.broker, self._catalog
        now_ms = broker.clock.wall_ms()
        await catalog.prepare()
        await catalog.cluster_id(broker.cluster_id, broker.config.log_dirs)
        rack = broker.config.broker_rack
        await catalog.register(broker.broker_id, Registration(tuple(endpoints), rack, now_ms))
        self.decides = await catalog.elect(broker.broker_id, now_ms)
        await self.settings.load()
        self._stale = asyncio.Event()
        for path in (znodes.TOPICS, znodes.BROKER_IDS, znodes.CONTROLLER):
            catalog.store.watch(path, lambda _: self._stale.set())
        await self._take_up()
        name = f"controller-{broker.broker_id}"
        self._following = asyncio.get_running_loop().create_task(self._follow(), name=name)

    async def stop(self) -> None:
        """Leave."""
        self._following.cancel()
        await asyncio.wait([self._following])
        await super().stop()

    async def _follow(self) -> None:
        while True:
            await self._stale.wait()
            self._stale.clear()
            await self._take_up()

    async def _take_up(self) -> None:
        """Lead what the store says, and show what it holds."""
        async with self._change:
            broker = self.broker
            brokers = await self._catalog.brokers()
            deciding = await self._deciding()
            stored = await self._catalog.topics()
            whole = [topic for topic in stored.values() if _is_whole(topic)]
            await self._lead(whole)
            gone = [name for name in broker.image.topics if name not in stored]
            for topic, index in tuple(broker.partitions):
                if topic in gone:
                    broker.drop_partition(topic, index)
            shown = [topic.shown() for topic in whole]
            broker.publish(
                ImageDelta(topics=shown, removed=gone, brokers=brokers, controller_id=deciding)
            )

    async def _deciding(self) -> BrokerId:
        try:
            node = await self._catalog.store.get(znodes.CONTROLLER)
        except StoreError:
            return NO_LEADER
        return BrokerId(int(json.loads(node.value)["brokerid"]))


def _is_whole(topic: StoredTopic) -> bool:
    return topic.node.topic_id is not None and topic.states.keys() == topic.node.partitions.keys()
