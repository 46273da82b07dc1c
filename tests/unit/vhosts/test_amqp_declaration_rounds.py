"""What several clients declare at once is written together."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from headrace.ports.store import NodeExists, Operation
from headrace.posix.clock import RealClock
from headrace.queues.model.declarations import DeclaredQueue
from headrace.vhosts import durable_queues
from headrace.vhosts.declaration_nodes import DeclarationNodes
from headrace.vhosts.durable_queues import DurableQueues
from tests.support.queues.queues import settings

if TYPE_CHECKING:
    from headrace.model.errors import HeadraceError

HOST: Any = SimpleNamespace(name="/", exchanges={}, queues={})


class NotedStore:
    """How many declarations were written together, round by round."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    async def multi(self, operations: Sequence[Operation]) -> None:
        self.sizes.append(len(operations))
        await asyncio.sleep(0.001)


def rounds(*counts: int) -> list[int]:
    """Have clients declare so many queues each, one after the other; the sizes of the rounds."""

    async def play() -> list[int]:
        loop = asyncio.get_running_loop()
        noted = NotedStore()
        store: Any = noted
        broker: Any = SimpleNamespace(disk=None, clock=RealClock(loop), partition=None)
        queues = DurableQueues(broker, broker, DeclarationNodes(store))

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


class HalfWrittenStore(NotedStore):
    """A store that has one of three nodes, from a round that failed after writing it."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.at = at
        self.asked: list[str] = []
        self.made: list[str] = []

    async def multi(self, operations: Sequence[Operation]) -> None:
        paths = [operation.path for operation in operations]
        self.asked = self.asked or paths
        if self.asked[self.at] in paths:
            raise NodeExists(paths[0])
        self.made += paths


@pytest.mark.parametrize("at", range(3))
def test_declarations_beside_those_of_a_half_written_round_are_stored(at: int) -> None:
    async def play() -> HalfWrittenStore:
        loop = asyncio.get_running_loop()
        half = HalfWrittenStore(at)
        store: Any = half
        broker: Any = SimpleNamespace(disk=None, clock=RealClock(loop), partition=None)
        queues = DurableQueues(broker, broker, DeclarationNodes(store))
        for name in ("first", "second", "third"):
            queues.added(HOST, DeclaredQueue(name, True, False, None, {}, settings()))
        kept: asyncio.Future[HeadraceError | None] = loop.create_future()
        queues.when_kept(kept.set_result)
        assert await asyncio.wait_for(kept, 10) is None
        await queues.close([])
        return half

    half = asyncio.run(play())
    assert len(half.asked) == 3
    assert half.made == [path for path in half.asked if path != half.asked[at]]
