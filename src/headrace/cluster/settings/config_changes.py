"""`ConfigChanges`: applies settings that other brokers change, by notices in `/config/changes`.

Each broker reads the entities that notices name (`store.notices`). As notices may be missed, all
settings are read again after each loss of the session.
"""

import asyncio
import logging
from typing import TYPE_CHECKING

from headrace.broker.broker import Broker
from headrace.broker.metadata_image import ImageDelta
from headrace.cluster.settings.runtime_settings import Settings
from headrace.cluster.store import znodes
from headrace.cluster.store.config_store import ConfigStore
from headrace.cluster.store.notices import Notices
from headrace.cluster.store.reaction import Reaction

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_logger = logging.getLogger(__name__)


class ConfigChanges:
    """This broker's watch for changed settings. Every method on the deciding thread."""

    def __init__(
        self, broker: Broker, configs: ConfigStore, settings: Settings, change: asyncio.Lock
    ) -> None:
        """Create the watch for changed settings. `change`: lock held while changes are applied."""
        self._broker = broker
        self._store = configs.store
        self._settings = settings
        self._change = change
        self._notices = Notices(
            configs.store, znodes.CONFIG_CHANGES, znodes.decode_config_change, broker.clock
        )
        self._topics: dict[str, Mapping[str, str]] = {}
        """Topic settings read for notices; the controller may still send older ones."""
        self._shown: dict[str, None] = {}
        """Topics that the controller has sent with other settings than those."""
        self._everything = False
        self._reaction = Reaction(
            self._take,
            "settings changed elsewhere are not applied until the next change or a restart",
        )
        self._unwatch: Callable[[], None] = _nothing

    def start(self) -> None:
        """Begin to watch. The settings of the store were loaded before."""
        self._unwatch = self._store.watch(self._notices.root, lambda _: self._reaction.ask())
        self._broker.image.observers.append(self._picture_changed)
        self._reaction.ask()

    def stop(self) -> None:
        """Cancel the watch."""
        self._unwatch()
        self._reaction.cancel()

    def missed(self) -> None:
        """Read all settings again, as notices may have been missed."""
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
        notices = await self._notices.unread()
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
        await self._notices.taken(notices)

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
    """Do nothing: the default of a callback."""
