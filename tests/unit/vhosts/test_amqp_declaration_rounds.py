"""What several clients declare at once is written together."""

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from headrace.posix.clock import RealClock
from headrace.queues.model.declarations import DeclaredQueue
from headrace.vhosts import durable_queues
from headrace.vhosts.declarations.stored_changes import Change
from headrace.vhosts.durable_queues import DurableQueues
from tests.support.queues.queues import settings

if TYPE_CHECKING:
    from headrace.model.errors import HeadraceError

HOST: Any = SimpleNamespace(name="/", exchanges={}, queues={})


class NotedLog:
    """How many declarations were written together, round by round."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    async def append(self, changes: Mapping[bytes, Change]) -> None:
        if changes:
            self.sizes.append(len(changes))
            await asyncio.sleep(0.001)


def rounds(*counts: int) -> list[int]:
    """Have clients declare so many queues each, one after the other; the sizes of the rounds."""

    async def play() -> list[int]:
        loop = asyncio.get_running_loop()
        noted = NotedLog()
        log: Any = noted
        broker: Any = SimpleNamespace(disk=None, clock=RealClock(loop), partition=None)
        queues = DurableQueues(broker, broker, log)

        async def client(number: int, count: int) -> None:
            for at in range(count):
                kept: asyncio.Future[HeadraceError | None] = loop.create_future()
                queues.added(
                    HOST, DeclaredQueue(f"{number}-{at}", True, False, None, {}, settings())
                )
                queues.when_kept(kept.set_result)
                assert await kept is None
                for _ in range(5 * number):  # not all are as quick
                    await asyncio.sleep(0)

        clients = [client(number, count) for number, count in enumerate(counts)]
        await asyncio.wait_for(asyncio.gather(*clients), 10)
        await queues.close([])
        return noted.sizes

    return asyncio.run(play())


def test_those_who_were_answered_together_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable_queues, "GATHER_SECONDS", 0.5)
    assert rounds(4, 4, 4)[:4] == [3, 3, 3, 3]


def test_who_declares_alone_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable_queues, "GATHER_SECONDS", 0.5)
    assert rounds(5) == [1] * 5


def test_who_does_not_come_back_is_not_waited_for_long() -> None:
    assert rounds(1, 3) == [2, 1, 1]
