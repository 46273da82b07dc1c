"""Requests of partition leaders to transaction coordinators, here and elsewhere."""

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.coordination.transactions.all_transactions import AllTransactions
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, TopicPartition
from tests.support.coordination.groups_kit import HandClock

HERE, ELSEWHERE = BrokerId(0), BrokerId(1)
PARTITION = TopicPartition("t", 0)


class Waiting:
    """Coordinators here and on another broker, which answer when the test says so."""

    def __init__(self, leader: BrokerId) -> None:
        self.asked: list[Any] = []
        self.led = SimpleNamespace(partition_for=lambda _: 0, leader_of=lambda *_: leader)

    def verify(self, *asked: Any) -> None:
        self.asked.append(asked[-1])

    def add(self, *asked: Any) -> None:
        self.asked.append(asked[-1])


@pytest.mark.parametrize("leader", [HERE, ELSEWHERE], ids=["here", "elsewhere"])
@pytest.mark.parametrize("answered", [False, True], ids=["in flight", "before its retry"])
def test_requests_without_an_answer_end_when_the_broker_stops(
    leader: BrokerId, answered: bool
) -> None:
    coordinators: Any = Waiting(leader)
    clock: Any = HandClock()
    every = AllTransactions(coordinators, HERE, lambda: coordinators, lambda: True, clock)
    producer: Any = (1, 0)
    heard: list[Any] = []
    every.verify("id", producer, [PARTITION], heard.append)
    every.add("id", producer, [PARTITION], 2, heard.append)
    if answered:
        coordinators.asked[1](ApiError(ErrorCode.CONCURRENT_TRANSACTIONS))
    assert heard == []
    every.close()
    unwritable, error = heard
    assert unwritable[PARTITION].code is ErrorCode.NOT_COORDINATOR
    assert error.code is ErrorCode.NOT_COORDINATOR
    clock.advance(60)
    assert (len(coordinators.asked), len(heard)) == (2, 2)
