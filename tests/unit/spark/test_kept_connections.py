"""Connections that a worker keeps: for how long, how many, and for whom."""

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.client.transport.port import Address
from headrace.spark.security import NO_SECURITY, Security
from headrace.spark.source import connections
from headrace.spark.source.connections import FetchConnections

HERE, THERE = Address("h", 1), Address("h", 2)
OTHER = Security(config_file="other.properties")


class Connection:
    """One that is at rest until the test says otherwise."""

    def __init__(self, address: Address, client_id: str, timeout_seconds: float) -> None:
        self.address, self.client_id, self.timeout_seconds = address, client_id, timeout_seconds
        self.at_rest, self.closed = True, False

    def close(self) -> None:
        self.closed = True


class Worker:
    """A process with its connections, by a clock that the test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **bounds: Any) -> None:
        self.now = 1000.0
        monkeypatch.setattr(connections, "time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr(Security, "fetch_connection", lambda _, *asked: Connection(*asked))
        self.kept = FetchConnections(**bounds)

    def take(
        self,
        address: Address = HERE,
        client_id: str = "c",
        security: Security = NO_SECURITY,
        seconds: float = 5.0,
    ) -> Any:
        return self.kept.take(address, client_id, seconds, security)


def test_one_that_is_in_the_middle_of_something_is_closed_and_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker = Worker(monkeypatch)
    one = worker.take()
    one.at_rest = False
    worker.kept.give_back(one)
    assert one.closed
    one.at_rest = True
    assert worker.take() is not one


def test_kept_connection_has_the_timeout_it_is_taken_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker = Worker(monkeypatch)
    one = worker.take(seconds=5.0)
    worker.kept.give_back(one)
    for seconds in (40.0, 2.0):
        assert worker.take(seconds=seconds) is one
        assert one.timeout_seconds == seconds
        worker.kept.give_back(one)


def test_one_that_broke_while_it_was_idle_is_closed_and_the_next_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker = Worker(monkeypatch)
    one, two = worker.take(), worker.take()
    worker.kept.give_back(one)
    worker.kept.give_back(two)
    two.at_rest = False
    assert worker.take() is one
    assert two.closed


def test_it_is_for_its_broker_its_client_and_who_made_it(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(monkeypatch)
    one = worker.take()
    worker.kept.give_back(one)
    others = [worker.take(THERE), worker.take(HERE, "d"), worker.take(HERE, "c", OTHER)]
    assert one not in others
    worker.kept.give_back(others[2], OTHER)
    assert worker.take() is one
    assert worker.take(security=OTHER) is others[2]


def test_it_is_kept_for_a_minute_and_not_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(monkeypatch)
    one = worker.take()
    worker.kept.give_back(one)
    worker.now += 60
    assert worker.take() is one
    worker.kept.give_back(one)
    worker.now += 60.1
    assert worker.take() is not one
    assert one.closed


def test_the_newest_are_kept_and_no_more_than_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(monkeypatch, kept_max=2)
    three = [worker.take() for _ in range(3)]
    for each in three:
        worker.kept.give_back(each)
    assert [each.closed for each in three] == [True, False, False]
    assert [worker.take(), worker.take()] == [three[2], three[1]]
    worker.kept.give_back(three[1])
    worker.kept.close()
    assert three[1].closed
