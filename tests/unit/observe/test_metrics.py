"""Counting, and what Prometheus is told."""

import json
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from headrace.frontends.http.exposition import render
from headrace.observe import logs
from headrace.observe.metrics import LABELS_MAX, Histogram, Metrics


@given(st.lists(st.floats(min_value=-1, max_value=1e12), max_size=50))
def test_each_duration_is_in_one_bucket_and_in_the_sum(durations: list[float]) -> None:
    histogram = Histogram()
    for seconds in durations:
        histogram.add(seconds)
    assert histogram.count == sum(histogram.buckets) == len(durations)
    assert histogram.seconds == pytest.approx(sum(max(0.0, seconds) for seconds in durations))
    for bound, count in histogram.cumulative():
        assert count == sum(seconds <= bound for seconds in durations)


def test_a_broker_that_has_done_nothing_has_counted_nothing() -> None:
    metrics = Metrics()
    counts = (
        metrics.records_in, metrics.flush_files, metrics.flush_errors, metrics.malformed,
        metrics.unclean_elections, metrics.flush.count, metrics.loop_lag.count,
    )  # fmt: skip
    assert counts == (0,) * 7
    stats = metrics.api(0)
    assert (stats.requests, stats.bytes_in, stats.bytes_out, stats.latency.count) == (0,) * 4


def test_unknown_apis_are_counted_together() -> None:
    metrics = Metrics()
    assert metrics.api(9999) is metrics.api(-1)
    assert metrics.api(0) is not metrics.api(1)


def test_the_exposition_is_read_by_prometheus_own_parser() -> None:
    metrics = Metrics()
    metrics.api(0).answered(0.002, 100, 20)
    metrics.api(0).failed(2)
    metrics.api(1).answered(0.5, 50, 5000)
    metrics.flushed(0.01, 3)
    metrics.gauge("headrace_partitions", "Partitions led", lambda: 7)
    metrics.gauge("headrace_log_bytes", "Bytes", lambda: {'a"b\n': 5.0}, label="topic")
    text = render(metrics).decode()
    samples = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert samples["headrace_requests_total", (("api", "produce"),)] == 1
    error = (("api", "produce"), ("error", "corrupt_message"))
    assert samples["headrace_errors_total", error] == 1
    assert samples["headrace_response_bytes_total", (("api", "fetch"),)] == 5000
    assert samples["headrace_flush_seconds_count", ()] == 1
    assert samples["headrace_flush_seconds_bucket", (("le", "+Inf"),)] == 1
    assert samples["headrace_partitions", ()] == 7
    assert samples["headrace_log_bytes", (("topic", 'a"b\n'),)] == 5


def test_names_chosen_by_clients_do_not_grow_the_answer_without_bound() -> None:
    metrics = Metrics()
    names = {f"topic-{number}": 1.0 for number in range(LABELS_MAX + 500)}
    metrics.gauge("headrace_log_bytes", "Bytes", lambda: names, label="topic")
    assert render(metrics).count(b"headrace_log_bytes{") == LABELS_MAX


def formatted(message: str, *arguments: object, exc_info: Any = None) -> str:
    record = logging.LogRecord("headrace.net", logging.INFO, "f", 1, message, arguments, exc_info)
    return logs.LineFormatter().format(record)


def test_a_log_line_has_time_level_room_and_message() -> None:
    time, level, room, message = formatted("hello %d", 5).split(None, 3)
    assert time.endswith("Z")
    assert "T" in time
    assert (level, room, message) == ("INFO", "net", "hello 5")


@given(st.text(max_size=50))
def test_what_came_from_outside_cannot_begin_a_line(text: str) -> None:
    assert len(formatted("%s", text).splitlines()) == 1


def test_fields_are_pairs_with_quotes_where_needed() -> None:
    shown = logs.fields(topic="t", why='a "b"', none=None, seconds=0.123456789)
    assert shown == 'topic=t why="a \\"b\\"" seconds=0.123457'


def test_a_traceback_follows_indented() -> None:
    try:
        raise ValueError("bad\nline")
    except ValueError as error:
        text = formatted("oops", exc_info=(type(error), error, error.__traceback__))
    first, *rest = text.splitlines()
    assert first.endswith("oops")
    assert rest
    assert all(line.startswith("    ") for line in rest)


def test_as_json_a_line_is_an_object_with_its_trace() -> None:
    try:
        raise ValueError("bad")
    except ValueError as error:
        info = (type(error), error, error.__traceback__)
    record = logging.LogRecord("headrace.net", logging.WARNING, "f", 1, 'a\n"%s"', ("b",), info)
    (line,) = logs.JsonFormatter().format(record).splitlines()
    said = json.loads(line)
    assert (said["level"], said["logger"], said["message"]) == ("warning", "net", 'a\n"b"')
    assert said["time"].endswith("Z")
    assert said["trace"].endswith("ValueError: bad")
