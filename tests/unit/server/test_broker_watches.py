"""Watches of other brokers: one that is killed is suspected soon, whatever is closed first."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.broker.metadata_image import BrokerInfo, Endpoint, MetadataImage
from headrace.client.transport.events import EventLink
from headrace.client.transport.port import Address, ConnectionLost, NotListening
from headrace.model.errors import HeadraceError
from headrace.model.nouns import BrokerId
from headrace.server.cluster.broker_watches import AGAIN_SECONDS, SHORT_MAX, BrokerWatches
from headrace.testing.sim.loop import SimLoop

OTHER = BrokerInfo(BrokerId(2), (Endpoint("PLAIN", "other", 9092),), epoch=7)
LIVED_SECONDS = 2 * AGAIN_SECONDS
ENDED = ConnectionLost("connection reset by peer")
REFUSED = NotListening("connection refused")


class LinkedFor(EventLink):
    """A connection that the other broker ends after some time."""

    async def wait_ended(self) -> None:
        await asyncio.sleep(LIVED_SECONDS)


class Dying:
    """The client of a broker that lives for `LIVED_SECONDS`; the last error is repeated."""

    def __init__(self, errors: Sequence[HeadraceError]) -> None:
        self.errors = [None, *errors]
        self.asked: list[float] = []
        self.transport = SimpleNamespace(now=lambda: asyncio.get_running_loop().time())

    async def link_to(self, address: Address) -> EventLink:
        self.asked.append(self.transport.now())
        error = self.errors.pop(0) if len(self.errors) > 1 else self.errors[0]
        if error is not None:
            raise error
        return LinkedFor(address)

    def close(self) -> None:
        """Do nothing: there is no connection."""


def seconds_until_suspected(errors: Sequence[HeadraceError]) -> float:
    """Return how long after its connection ended a broker is suspected."""
    loop, client = SimLoop(1), Dying(errors)
    image = MetadataImage("cluster")
    image.brokers = {OTHER.broker_id: OTHER}
    broker = SimpleNamespace(
        broker_id=BrokerId(1),
        image=image,
        config=SimpleNamespace(inter_broker_listener_name="PLAIN"),
    )
    controller: Any = SimpleNamespace(
        broker=broker, is_controller=False, known=SimpleNamespace(id=BrokerId(1))
    )
    clients: Any = SimpleNamespace(make=lambda name: client)
    store: Any = None

    async def whole() -> float:
        suspected = asyncio.Event()
        image.observers.append(lambda *_: suspected.set())
        watches = BrokerWatches(controller, store, clients, asyncio.ensure_future)
        watches.start()
        began = asyncio.get_running_loop().time() + LIVED_SECONDS
        await suspected.wait()
        seconds = asyncio.get_running_loop().time() - began
        watches.close()
        return seconds

    found: float = loop.play(whole())
    return found


@pytest.mark.parametrize("errors", [[REFUSED], [ENDED, REFUSED], [ENDED, ENDED, REFUSED]])
def test_killed_broker_is_suspected_soon(errors: Sequence[HeadraceError]) -> None:
    assert seconds_until_suspected(errors) < 0.25


def test_broker_that_ends_each_connection_is_connected_to_with_pauses() -> None:
    ends = [ENDED] * (SHORT_MAX + 2)
    assert seconds_until_suspected([*ends, REFUSED]) > 2 * AGAIN_SECONDS
