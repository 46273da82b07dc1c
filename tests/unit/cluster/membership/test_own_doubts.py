"""The notes about a broker's replicas in doubt."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.cluster.membership.directory_doubts import OwnDoubts
from tests.support.coordination.groups_kit import HandClock


def test_notes_that_cannot_be_written_end_no_orders(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broker: Any = SimpleNamespace(broker_id=1, clock=HandClock(), directories=[])
    store: Any = SimpleNamespace()

    async def story() -> None:
        doubts = OwnDoubts(broker, store)
        doubts._older.add("/data")

        async def full() -> None:
            raise OSError(28, "no space")

        monkeypatch.setattr(doubts, "_write", full)
        await doubts.settle()

    asyncio.run(story())
    assert "The next start decides by the former content" in caplog.text
