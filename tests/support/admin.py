"""Asking the admin APIs: requests built and answers read through the codec, in any version."""

from collections.abc import Callable, Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any

from headrace.frontends.kafka.connection.api import Api
from headrace.frontends.kafka.connection.handler import load_handler
from headrace.model.errors import ErrorCode
from headrace.testing.disk import SimDisk
from headrace.wire.kafka import kio_codec
from tests.support.processes.broker import Room, play, room

MINUTE = timedelta(minutes=1)

Story = Callable[[Room], Coroutine[Any, Any, None]]


def tell(place: Path, story: Story, **settings: Any) -> None:
    """Run a story in a new broker."""

    async def run() -> None:
        async with room(place, SimDisk(), **settings) as here:
            await story(here)

    play(run())


def nested(api: Api, version: int, entity: str, /, **fields: Any) -> Any:
    """An entity of a request."""
    module = kio_codec.entity_module(api.key, version).request
    return getattr(module, entity)(**fields)


async def ask(here: Room, api: Api, version: int, **fields: Any) -> Any:
    """One request; the answer as a client reads it."""
    return await here.ask(load_handler(api), api.key, version, **fields)


def versions(api: Api) -> range:
    """All that are served."""
    return range(api.min_version, api.max_version + 1)


def codes(items: Any) -> list[str]:
    """The names of the items' error codes."""
    return [ErrorCode(int(item.error_code)).name for item in items]
