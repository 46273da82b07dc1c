"""What other brokers alter, taken up here: told by notices below `/config/changes`.

As Kafka's brokers with ZooKeeper do it: each broker reads the notices after the last one it knows,
and the entities that they name. Notices are removed a quarter of an hour after they were read, by
whoever reads the next one. Who was away longer has missed some: after each loss of the session
everything is read again.
"""

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING

from headrace.broker.broker import Broker
from headrace.broker.metadata_image import ImageDelta
from headrace.cluster.settings.runtime_settings import Settings
from headrace.cluster.store import znodes
from headrace.cluster.store.config_store import ConfigStore
from headrace.cluster.store.reaction import Reaction

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_logger = logging.getLogger(__name__)

NOTICE_SECONDS = 900.0
"""How long notices stay in the store once they have been read."""


class ConfigChanges:
    """This broker's ear for altered settings. Every method on the deciding thread."""

    def __init__(
        self, broker: Broker, configs: ConfigStore, settings: Settings, change: asyncio.Lock
    ) -> None:
        """`change` is held while something is taken up: alterations wait."""
        self._broker = broker
        self._configs = configs
        self._settings = settings
        self._change = change
        self._last = ""
        """The newest notice that was read."""
        self._read: deque[tuple[float, str]] = deque()
        """When each notice was read that is still in the store, as far as we know."""
        self._topics: dict[str, Mapping[str, str]] = {}
        """As notices had us read them: the controller may show a topic as it was before."""
        self._shown: dict[str, None] = {}
        """Topics that came with other settings than those."""
        self._everything = False
        self._reaction = Reaction(
            self._take, "settings altered elsewhere are not taken up before the next alteration"
        )
        self._unwatch: Callable[[], None] = _nothing

    def start(self) -> None:
        """Listen from now on. What the store held before has been taken up."""
        self._unwatch = self._configs.store.watch(
            znodes.CONFIG_CHANGES, lambda _: self._reaction.ask()
        )
        self._broker.image.observers.append(self._picture_changed)
        self._reaction.ask()

    def stop(self) -> None:
        """Listen no more."""
        self._unwatch()
        self._reaction.cancel()

    def missed(self) -> None:
        """Take up everything again: notices may have come and gone unheard."""
        self._everything = True
        self._reaction.ask()

    def _picture_changed(self, delta: ImageDelta, structural: bool) -> None:
        for name in delta.removed:
            self._topics.pop(name, None)
        shown = [
            topic.name
            for topic in delta.topics
            if self._topics.get(topic.name, topic.config) != topic.config
        ]
        if shown:
            self._shown |= dict.fromkeys(shown)
            self._reaction.ask()

    async def _take(self) -> None:
        notices = await self._configs.notices(self._last)
        async with self._change:
            if self._everything:
                await self._settings.load_again()
                self._everything = False
            told = dict.fromkeys(entity for entity in notices.values() if entity is not None)
            shown = list(self._shown)
            for entity in told | {f"topics/{name}": None for name in shown}:
                await self._take_entity(entity)
            for name in shown:
                self._shown.pop(name, None)
        now = self._broker.clock.monotonic()
        for name in notices:
            self._last = name
            self._read.append((now, name))
        while notices and self._read and now - self._read[0][0] >= NOTICE_SECONDS:
            await self._configs.forget_notice(self._read.popleft()[1])

    async def _take_entity(self, entity: str) -> None:
        try:
            config = await self._settings.read(entity)
        except znodes.BadPayload as error:
            _logger.error("settings that another broker or tool wrote are ignored: %s", error)
            return
        if config is not None:
            self._topics[entity.removeprefix("topics/")] = config
        _logger.info("settings of %s were altered", entity)


def _nothing() -> None:
    """Do nothing: nobody listens yet."""
