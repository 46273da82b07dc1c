"""Durations by hand: the buckets' edges, quantiles of few, sums per octave; levels by name."""

import logging

import pytest

from headrace.observe.logs import LOGGER_LEVELS
from headrace.observe.metrics import API_KEYS_MAX, LABELS_MAX, ApiStats, Metrics, bucket_end


def test_the_levels_are_those_that_kafkas_tools_know() -> None:
    assert LOGGER_LEVELS == {
        "OFF": 60, "FATAL": 50, "ERROR": 40, "WARN": 30, "INFO": 20, "DEBUG": 10, "TRACE": 5,
    }  # fmt: skip
    assert LOGGER_LEVELS["TRACE"] < logging.DEBUG


def test_nothing_was_asked_of_an_api_at_first() -> None:
    stats = ApiStats()
    assert (stats.requests, stats.bytes_in, stats.bytes_out) == (0, 0, 0)
    latency = stats.latency
    assert (latency.count, latency.seconds, latency.seconds_max) == (0, 0.0, 0.0)
    assert latency.quantile(0.5) == 0.0


def test_of_a_few_durations_the_quantile_is_that_which_so_many_did_not_exceed() -> None:
    latency = ApiStats().latency
    for seconds in (0.001, 0.010, 0.100, 1.0):
        latency.add(seconds)
    found = [latency.quantile(share) for share in (0.25, 0.5, 0.75, 1.0)]
    for exact, told in zip((0.001, 0.010, 0.100, 1.0), found, strict=True):
        assert exact <= told <= exact * 1.26
    assert latency.quantile(0.26) == found[1]
    assert found[-1] == 1.0, "nothing is told beyond the longest"
    assert (latency.count, latency.seconds_max) == (4, 1.0)
    assert latency.seconds == pytest.approx(1.111)


def test_a_duration_of_microseconds_lies_in_the_bucket_that_ends_right_behind_it() -> None:
    for micros in [*range(20), 31, 32, 1000, 1023, 1024, 65_535, 65_536, 10**9]:
        latency = ApiStats().latency
        latency.add((micros + 0.5) / 1e6)
        (at,) = [number for number, count in enumerate(latency.buckets) if count]
        assert micros / 1e6 < bucket_end(at)
        if at:
            assert bucket_end(at - 1) <= micros / 1e6


def test_sums_per_octave_grow_to_the_count_and_hold_what_took_longest() -> None:
    latency = ApiStats().latency
    for seconds in (0.0, -1.0, 3e-6, 4e-6, 1.0, 1e9):
        latency.add(seconds)
    found = list(latency.cumulative())
    assert [count for _, count in found] == sorted(count for _, count in found)
    assert found[-1][1] == 6
    assert found[0] == (bucket_end(3), 3)
    assert found[1][1] == 4
    ends = [end for end, _ in found]
    assert ends == sorted(set(ends))
    assert len(found) == 36


def test_apis_are_counted_by_their_keys_up_to_the_last_one_there_is_room_for() -> None:
    metrics = Metrics()
    found = [metrics.api(key) for key in range(API_KEYS_MAX)]
    assert len({id(stats) for stats in found}) == API_KEYS_MAX
    others = metrics.api(API_KEYS_MAX)
    assert others is metrics.api(API_KEYS_MAX + 1) is metrics.api(-1)
    assert others not in found
    assert (API_KEYS_MAX, LABELS_MAX) == (128, 1000)
