"""Share groups with a stock client: librdkafka's share consumer (KIP-932)."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import AcknowledgeType, ShareConsumer

from tests.support.coordination.share import SharePlace
from tests.support.processes.process import BrokerProcess

SECONDS_MAX = 40.0


@pytest.fixture
def place(bootstrap: str) -> SharePlace:
    """A topic, and a group of the same test that begins at its start."""
    return SharePlace(bootstrap)


def member(place: SharePlace, mode: str = "explicit") -> "closing[Any]":
    """A member of the group that reads the topic."""
    one = ShareConsumer({
        "bootstrap.servers": place.bootstrap,
        "group.id": place.group,
        "share.acknowledgement.mode": mode,
    })  # fmt: skip
    one.subscribe([place.topic])
    return closing(one)


def polls(one: Any, enough: Callable[[], bool]) -> Iterator[Any]:
    """Records, until there are enough of them."""
    end = time.monotonic() + SECONDS_MAX
    while not enough() and time.monotonic() < end:
        for message in one.poll(0.2):
            assert message.error() is None, message.error()
            yield message
    assert enough(), "too few within the time"


def commit(one: Any) -> None:
    """All acknowledgements are taken."""
    assert [error for error in one.commit_sync(20.0).values() if error is not None] == []


def read(one: Any, count: int, how: Callable[[Any], int | None]) -> dict[int, int]:
    """The next `count` records' offsets and how often they came; `how` settles each."""
    found: dict[int, int] = {}
    for message in polls(one, lambda: len(found) >= count):
        found[message.offset()] = message.delivery_count()
        settled = how(message)
        if settled is not None:
            one.acknowledge(message, settled)
    return found


def test_each_record_is_accepted_released_or_rejected(place: SharePlace) -> None:
    place.produce(9)
    kinds = (AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT)
    with member(place) as one:
        first = read(one, 9, lambda message: int(kinds[message.offset() % 3]))
        assert set(first.values()) == {1}
        commit(one)
        again = read(one, 3, lambda _: int(AcknowledgeType.ACCEPT))
        assert again == {1: 2, 4: 2, 7: 2}
        commit(one)
    with member(place, "implicit") as other:
        place.produce(1)
        assert read(other, 1, lambda _: None) == {9: 1}


def test_two_consumers_share_a_partition(place: SharePlace) -> None:
    times: Counter[int] = Counter()
    with member(place) as one, member(place) as other:
        for consumer in (one, other):
            consumer.poll(0.5)
        had = [0, 0]
        end = time.monotonic() + SECONDS_MAX
        written = 0
        while len(times) < 200 and time.monotonic() < end:
            if written < 200:
                place.produce(20)
                written += 20
            for at, consumer in enumerate((one, other)):
                for message in consumer.poll(0.1):
                    times[message.offset()] += 1
                    had[at] += 1
                    consumer.acknowledge(message)
                commit(consumer)
        assert len(times) == 200
        assert set(times.values()) == {1}
        assert min(had) > 0


def test_nothing_accepted_comes_again_after_a_kill(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        place = SharePlace(broker.bootstrap)
        place.produce(20)

        def settle(message: Any) -> int:
            accepted = message.offset() % 2 == 0
            return int(AcknowledgeType.ACCEPT if accepted else AcknowledgeType.RELEASE)

        with member(place) as one:
            read(one, 20, settle)
            commit(one)
            out = read(one, 10, lambda _: None)
            assert set(out) == set(range(1, 20, 2))
            broker.kill()
            broker.start()
            for offset in out:
                one.acknowledge_offset(place.topic, 0, offset, AcknowledgeType.ACCEPT)
            one.commit_sync(2.0)  # of locks that are gone: whatever the answer, they come again
        with member(place) as other:
            again = read(other, 10, lambda _: int(AcknowledgeType.ACCEPT))
            assert set(again) == set(out)
            assert min(again.values()) >= 2
            commit(other)
