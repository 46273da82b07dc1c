"""Durations by hand: the buckets' edges and sums; levels by name."""

import logging

import pytest

from headrace.observe.logs import LOGGER_LEVELS
from headrace.observe.metrics import API_KEYS_MAX, BUCKETS_SECONDS, LABELS_MAX, ApiStats, Metrics


def test_the_levels_are_those_that_kafkas_tools_know() -> None:
    assert LOGGER_LEVELS == {
        "OFF": 60, "FATAL": 50, "ERROR": 40, "WARN": 30, "INFO": 20, "DEBUG": 10, "TRACE": 5,
    }  # fmt: skip
    assert LOGGER_LEVELS["TRACE"] < logging.DEBUG


def test_nothing_was_asked_of_an_api_at_first() -> None:
    stats = ApiStats()
    assert (stats.requests, stats.bytes_in, stats.bytes_out) == (0, 0, 0)
    assert (stats.latency.count, stats.latency.seconds) == (0, 0.0)
    assert set(stats.latency.buckets) == {0}


@pytest.mark.parametrize("bound", BUCKETS_SECONDS)
def test_a_bucket_holds_its_upper_bound_and_nothing_longer(bound: float) -> None:
    for seconds, inside in ((bound, 1), (bound * 1.001, 0)):
        latency = ApiStats().latency
        latency.add(seconds)
        assert dict(latency.cumulative())[bound] == inside


def test_counts_grow_from_bucket_to_bucket_and_what_took_longest_is_in_none() -> None:
    latency = ApiStats().latency
    for seconds in (0.0, -1.0, 0.0001, 0.0002, 1.0, 1e9):
        latency.add(seconds)
    found = list(latency.cumulative())
    assert [bound for bound, _ in found] == list(BUCKETS_SECONDS) == sorted(BUCKETS_SECONDS)
    assert [count for _, count in found] == [3, *[4] * 11, *[5] * 5]
    assert latency.count == 6
    assert latency.seconds == pytest.approx(1e9 + 1.0003)


def test_apis_are_counted_by_their_keys_up_to_the_last_one_there_is_room_for() -> None:
    metrics = Metrics()
    found = [metrics.api(key) for key in range(API_KEYS_MAX)]
    assert len({id(stats) for stats in found}) == API_KEYS_MAX
    others = metrics.api(API_KEYS_MAX)
    assert others is metrics.api(API_KEYS_MAX + 1) is metrics.api(-1)
    assert others not in found
    assert (API_KEYS_MAX, LABELS_MAX) == (128, 1000)
