"""`headrace cluster reassign --cancel` while other partitions move."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from headrace.cli.cluster import reassign as moves
from headrace.client.admin import replicas
from headrace.model.nouns import TopicPartition
from headrace.testing import BrokerThread
from tests.support.processes.cli_kit import Says, send


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    with BrokerThread() as broker:
        send(broker.bootstrap, "t", 1)
        yield broker


@pytest.mark.parametrize("others", [0, 1])
def test_cancel_ends_throttles_only_when_no_reassignment_is_left(
    broker: BrokerThread, says: Says, monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    ended: list[set[str]] = []

    async def cancelled(client: object, wanted: Mapping[TopicPartition, Any]) -> dict[Any, None]:
        return dict.fromkeys(wanted)

    async def running(client: object) -> list[str]:
        return ["u-0"] * others

    monkeypatch.setattr(replicas, "reassign", cancelled)
    monkeypatch.setattr(replicas, "reassignments", running)
    monkeypatch.setattr(
        moves, "_end_throttles", lambda client, topics, brokers: ended.append(topics)
    )
    code, _, _ = says("cluster", "reassign", "--cancel", "t:0")
    assert code == 0
    assert ended == ([] if others else [{"t"}])
