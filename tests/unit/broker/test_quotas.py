"""Quotas by a clock that the test moves: who has to wait how long, and whose rate it is."""

import pytest

from headrace.broker import quotas as module
from headrace.broker.producer_ids import ProducerIds
from headrace.broker.quotas import Bucket, Entity, Quotas
from headrace.broker.rates import Rate


class Time:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def made(limits: dict[Entity, dict[str, float]]) -> tuple[Quotas, Time]:
    """Quotas over 3 windows of 1 second, with these limits."""
    time = Time()
    quotas = Quotas(time, 3, 1)
    for entity, of_entity in limits.items():
        quotas.put(entity, of_entity)
    return quotas, time


def test_a_window_ends_when_it_is_as_old_as_it_is_long() -> None:
    rate = Rate(3, 1000)
    for now_ms in (0, 999, 1000, 2000):
        rate.add(100, now_ms)
    # 400 in two seconds, of which the first window is still counted.
    assert rate.measure(2000) == (200.0, 2000.0)
    # The first window ended at 1000, so it is out at 3000: 200 in two seconds.
    assert rate.measure(3000) == (100.0, 2000.0)


def test_who_does_just_what_he_may_does_not_wait() -> None:
    time = Time()
    bucket = Bucket(50.0, Rate(3, 1000), time)
    assert bucket.add(100) == 0.0
    assert bucket.add(1) == pytest.approx(0.02)


def test_a_bound_of_nothing_is_waited_for_for_ever_but_doing_nothing_is_free() -> None:
    bucket = Bucket(0.0, Rate(3, 1000), Time())
    assert bucket.add(0) == 0.0
    assert bucket.add(1) == float("inf")


def test_every_change_is_seen_by_those_who_asked_before() -> None:
    quotas, _ = made({})
    before = quotas.version
    quotas.put(Entity("u"), {"producer_byte_rate": 10.0})
    assert quotas.version == before + 1
    quotas.put(Entity("u"), {})
    assert quotas.version == before + 2
    assert not quotas.active


def test_a_connection_that_is_refused_is_not_counted() -> None:
    quotas, time = made({Entity(ip="10.0.0.1"): {"connection_creation_rate": 1.0}})
    assert [quotas.connected("10.0.0.1") > 0 for _ in range(5)] == [False, False, True, True, True]
    time.seconds += 3.0
    assert quotas.connected("10.0.0.1") == 0.0
    assert quotas.throttled[module.QuotaKey.CONNECTIONS] == 3


def test_of_too_many_clients_the_longest_unseen_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "BUCKETS_MAX", 3)
    quotas, _ = made({Entity("", ""): {"producer_byte_rate": 10.0}})
    for client in "abc":
        assert quotas.of("u", client).produced(1000) > 0
    assert quotas.of("u", "a").produced(0) > 0
    quotas.of("u", "d")
    assert quotas.of("u", "a").produced(0) > 0
    assert quotas.of("u", "b").produced(0) == 0.0


def test_of_too_many_who_change_topics_the_longest_unseen_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "BUCKETS_MAX", 2)
    quotas, _ = made({Entity("", ""): {"controller_mutation_rate": 1.0}})

    def waits(client: str, partitions: int) -> bool:
        mutations = quotas.mutations("u", client, strict=False)
        mutations.spend(partitions)
        return mutations.wait_seconds() > 0

    assert waits("a", 100)
    assert waits("b", 100)
    assert waits("a", 0)
    assert not waits("c", 1)
    assert waits("a", 0)
    assert not waits("b", 0)


def test_a_block_of_producer_ids_is_given_out_whole_and_each_id_once() -> None:
    ids = ProducerIds()
    assert ids.empty
    assert ids.take() is None
    ids.refill(7, 9)
    assert [ids.take() for _ in range(4)] == [7, 8, 9, None]
    assert ids.empty


def test_who_is_refused_often_waits_no_longer_than_who_is_refused_once() -> None:
    waits = []
    for refusals in (1, 50):
        quotas, time = made({Entity(ip="10.0.0.1"): {"connection_creation_rate": 10.0}})
        while (wait := quotas.connected("10.0.0.1")) == 0.0:
            continue
        for _ in range(refusals):
            quotas.connected("10.0.0.1")
        time.seconds += wait
        waits.append(wait)
        assert quotas.connected("10.0.0.1") == 0.0
    assert waits == [pytest.approx(waits[0])] * 2
    assert 0 < waits[0] < 1
